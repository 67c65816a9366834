"""Migrations of the catalog. Alembic is imported here and only here: an up-to-date workspace never loads it."""
