import { parse, stringify } from "ini";

/** Reads settings, and writes them. */
export function settings(): { user: unknown; text: string } {
  const config = parse(
    "scope = global\n[database]\nuser = dbuser\nport = 5432\n[paths.default]\narray[] = first value\n",
  );
  return { user: config["database"], text: stringify({ scope: "local", database: { user: "other" } }) };
}
