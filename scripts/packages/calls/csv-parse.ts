import { parse } from "csv-parse";
import { parse as parseNow } from "csv-parse/sync";

/** Reads one table at once, and another one in pieces. */
export async function tables(): Promise<{ now: unknown; inPieces: string[][] }> {
  const now = parseNow('key_1,key_2\nvalue 1,"value, 2"', { columns: true, skip_empty_lines: true });
  const parser = parse({ delimiter: ":" });
  const inPieces: string[][] = [];
  parser.write("root:x:0\n");
  parser.end("someone:x:1022\n");
  for await (const record of parser) inPieces.push(record as string[]);
  return { now, inPieces };
}
