"""SQLite and PostgreSQL behind one interface: tables, migrations, transactions."""
