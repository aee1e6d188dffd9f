import pg from "pg";

const { Client, escapeIdentifier, escapeLiteral, types } = pg;

/** Escapes what goes into a query; there is no database to connect to. */
export async function escaped(): Promise<{ name: string; text: string; int: unknown; host: string }> {
  const client = new Client({ connectionString: "postgres://user:secret@db.example.com:5432/app" });
  const int: unknown = types.getTypeParser(types.builtins.INT4)("42");
  return { name: escapeIdentifier('a"b'), text: escapeLiteral("it's"), int, host: client.host };
}
