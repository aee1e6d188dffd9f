import { styleText } from "node:util";

export type Style = (style: "bold" | "cyan" | "dim" | "red" | "yellow", text: string) => string;

/** Colours for a terminal; none for anything else, and none where `NO_COLOR` is set. */
export function stylesFor(stream: { readonly isTTY?: boolean }, env: NodeJS.ProcessEnv = process.env): Style {
  const hasColours = stream.isTTY === true && !env["NO_COLOR"];
  // `styleText` itself would leave colours out wherever `CI` is set.
  return hasColours ? (style, text) => styleText(style, text, { validateStream: false }) : (_, text) => text;
}
