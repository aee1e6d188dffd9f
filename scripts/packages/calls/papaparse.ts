import Papa from "papaparse";

interface Row {
  name: string;
  age: number;
}

/** Reads a table. */
export function rows(): Row[] {
  return Papa.parse<Row>('name,age\n"Lovelace, Ada",36\nAlan,41', { header: true, dynamicTyping: true }).data;
}
