"""How a component of ours shows other HTML than before: what is alike stays.

A node that is made anew loses the focus, and a press that began on it is heard by nobody.
"""

REDRAW = """
const named = (node) => [node.nodeName, node.dataset?.cite, node.dataset?.press].join();
const take = (was, now) => {
  const old = [...was.childNodes], fresh = [...now.childNodes];
  fresh.forEach((node, place) => {
    const before = old[place];
    if (!before) was.append(node);
    else if (named(before) !== named(node)) before.replaceWith(node);
    else if (node.nodeType !== Node.ELEMENT_NODE) before.data = node.data;
    else {
      for (const { name } of [...before.attributes]) if (!node.hasAttribute(name)) before.removeAttribute(name);
      for (const { name, value } of node.attributes) before.setAttribute(name, value);
      take(before, node);
    }
  });
  old.slice(fresh.length).forEach((node) => node.remove());
};
const redraw = (root, html) => {
  if (root.dataset.html === html) return;
  take(root, Object.assign(document.createElement("template"), { innerHTML: html }).content);
  root.dataset.html = html;
};
"""
"""`redraw(root, html)`. A button that leads elsewhere now is another one: nobody presses what they did not mean."""
