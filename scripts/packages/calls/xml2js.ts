import { Builder, parseStringPromise } from "xml2js";

/** Reads XML, and writes it. */
export async function xml(): Promise<{ value: unknown; text: string }> {
  const value: unknown = await parseStringPromise("<root>Hello <b x='1'>xml2js!</b></root>");
  return { value, text: new Builder({ headless: true }).buildObject({ name: "Super", Side: "<power>" }) };
}
