"""Bytes -> Markdown with locators. One file for each family of formats; `registry` knows them by name.

A parser is `parse(data: bytes, name: str) -> Parsed`. It raises `CannotParse` for what a person should
know, fetches nothing, and runs in the jail (all but plain text and Markdown).
"""
