import jsonata from "jsonata";

/** Queries data. */
export async function sum(): Promise<unknown> {
  const data = { example: [{ value: 4 }, { value: 7 }, { value: 13 }] };
  return jsonata("$sum(example.value)").evaluate(data);
}
