"""English, as far as the rules need it: small words, common verbs, and nouns that are always of something."""

from __future__ import annotations

import re

WORD = re.compile(r"`[^`\n]{1,80}`|[^\W_][\w.+#/@-]*[\w+#]|[^\W_]")
"""A word, a dotted or hyphenated name, or anything between backticks. Apostrophes divide: `it's` is `it` and `s`."""

_FUNCTION = """
a an the this that these those some any each every either neither no all both few many much more most other another
such i me my mine you your yours we us our ours he him his she her hers it its they them their theirs one ones
myself itself themselves someone anyone everyone something anything everything nothing nobody who whom whose what
which when where why how whether if because since although though while until unless and or but nor so than then as
also too very really just only even still yet again ever never always often usually not n't don t s re ll ve d m isn
aren doesn didn wasn weren can't cannot won wouldn shouldn couldn hasn haven of in on at to for from by with without
about into onto over under between among through during before after above below against across around near via per
within toward towards besides except like instead out up down off apart away back is are was were be been being am
do does did done doing have has had having can could will would shall should may might must ought there here now
today maybe perhaps well please thanks ok okay yes yeah oh hmm wow hey hi hello right sure else exactly actually
currently originally generally particular general together else long
"""

_VERBS = """
accept adapt add affect agree allow answer appear apply ask attract avoid balance become begin believe belong break
bring build buy call carry catch cause change check choose collect combine come compare configure connect consider
consume contain continue contribute convert cook cost cover create damage deal declare define delete deliver depend
deploy describe detect determine develop die differ disable discover discuss do drink drive earn eat edit enable end
enter exist expand expect explain export extend fail fall feel fight find finish fix fly follow form generate get
give go grow handle happen hear help hide hold improve include increase indicate influence inherit install introduce
invent invest involve join keep kill know last lead learn leave let limit list live load look lose make manage mark
matter mean measure meet mention mix mount move need occur offer open organise organize originate override own pass
pay perform persist play prepare prevent produce protect prove provide publish put raise reach react read receive
recommend recycle reduce refer relate release remain remember remove replace represent require resolve respond
restart result return reverse run save say see seem select sell send serve set share shift show sing sit sleep solve
sort speak spend spread stand start stay stop submit suffer suggest support take talk taste teach tell test think
throw travel treat try turn understand update upload use validate visit wait want watch wear weigh win wonder work
worry write
"""
_FORMS = """
became began broke brought built bought came chose drank drove ate fell felt fought found flew got gotten gave given
went gone grew grown heard hidden held kept known knew led left lost made meant met paid ran said saw seen sold sent
sat slept spoke spoken spent stood took taken taught told thought threw understood won wore worn wrote written born
shown driven eaten broken chosen begun drunk set put let cut dying lying
"""

_ADJECTIVES = """
able available bad best better big biggest black blue cheap cheaper clear common cool dangerous dead deep different
difficult easy effective enough essential ethical expensive famous fast faster free full good great green happy hard
harmful healthy high hot important independent interesting large larger largest legal little low main major modern
native necessary new normal old optional poor popular possible powerful profitable public ready red related required
rich safe safer same secure serious short significant similar simple slow small smaller soft special strong
successful sure tall toxic treatable true typical unique useful valid valuable weak white wide worse worst worth
wrong young younger
"""

_OF_SOMETHING = """
advantage aim alternative appearance application argument author award background beginning behavior behaviour
benefit capital cause challenge character characteristic component con consequence contribution controversy cost
creator criticism danger default definition difference disadvantage downside drawback effect element example feature
finding founder function goal growth history idea influence invention issue layer implication importance impact
inventor key leader level limit limitation meaning mechanism member method moment objective name negative option
origin outcome owner part penalty population positive price principle pro problem process property purpose reason
requirement result risk role rule reaction relationship response significance sign similarity size success support
source stage step strength structure symptom syntax term theme theory treatment type kind upside use value variant
variety version weakness
"""

_GENERIC = """
time day year week month today way thing people person someone lot kind type sort bit fact place amount number
"""

_FOREIGN = """
der das und ist nicht mit den ein eine für auf von zu wie wer wann wo warum welche welcher es er ihr sie kann wird
gibt mir bitte über wir ich sind kostet im le la les des et est une pour dans que qui sur pas avec vous du quoi quel
quelle quels quelles comment pourquoi où quand il elle ils elles ça ce cette au aux je el los las una para con por
del está como cómo qué pero más este esta sus se cuál cuándo dónde quién quanto cuánto y en gli che per della sono
non anche questo nel di het een van voor niet wat hoe waar zijn os uma não mais dos você são eso esto ese muy
también porque cuando donde quien hay tiene puedo hacer sirve peut faire avoir être sont ses leur votre notre cela
celui très aussi alors aber oder auch nur noch wenn dann dass kein keine mein dein haben nach bei aus
"""


def words_of(*texts: str) -> frozenset[str]:
    """The words of lists that are written as text."""
    return frozenset(word for text in texts for word in text.split())


def _inflected(verb: str) -> tuple[str, ...]:
    stem = verb[:-1] if verb.endswith("e") else verb
    doubled = verb + verb[-1]
    third = verb + ("es" if verb.endswith(("s", "sh", "ch", "x", "o")) else "s")
    if verb.endswith("y") and verb[-2] not in "aeiou":
        return verb, verb[:-1] + "ies", verb[:-1] + "ied", verb + "ing"
    return verb, third, stem + "ed", stem + "ing", doubled + "ed", doubled + "ing"


FUNCTION_WORDS = words_of(_FUNCTION)
BASE_VERBS = words_of(_VERBS)
VERBS = frozenset(form for verb in _VERBS.split() for form in _inflected(verb)) | words_of(_FORMS)
ADJECTIVES = words_of(_ADJECTIVES)
OF_SOMETHING = words_of(_OF_SOMETHING)
GENERIC = words_of(_GENERIC)
COMMON = FUNCTION_WORDS | VERBS | ADJECTIVES
_OTHER = words_of(_FOREIGN) - COMMON
_IRREGULAR = {
    "people": "person", "children": "child", "men": "man", "women": "woman", "mice": "mouse", "feet": "foot",
    "teeth": "tooth", "geese": "goose", "criteria": "criterion", "wolves": "wolf", "lives": "life",
}  # fmt: skip

_NOT_PLURAL = ("ss", "us", "is", "ics", "ias")
_SAMPLE = 2_000
_OTHER_SIGNS = re.compile("[¿¡ßñ]")


def is_english(text: str) -> bool:
    """Whether a short text is surely English: more of its small words are than are another language's."""
    if _OTHER_SIGNS.search(text):
        return False
    words = [word.lower() for word in WORD.findall(text[:_SAMPLE])]
    english = sum(word in COMMON for word in words)
    return english > 2 * sum(word in _OTHER for word in words) and english * 5 >= len(words)


def is_plural(word: str) -> bool:
    low = word.lower()
    return low in _IRREGULAR or (len(low) > 3 and low.endswith("s") and not low.endswith(_NOT_PLURAL))


def singular(word: str) -> str:
    """A noun in the singular; as it is if it is not a plural."""
    if not is_plural(word):
        return word
    low = word.lower()
    if low in _IRREGULAR:
        return _IRREGULAR[low]
    if low.endswith("ies") and len(low) > 4:
        return word[:-3] + "y"
    return word[:-2] if low.endswith(("sses", "shes", "ches", "xes")) else word[:-1]
