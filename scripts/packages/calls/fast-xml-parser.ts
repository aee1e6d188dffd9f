import { XMLParser, XMLValidator } from "fast-xml-parser";

/** Reads XML. */
export function xml(): { value: unknown; isValid: boolean } {
  const text = '<root a="nice"><b>wow &amp; more</b><b>2</b></root>';
  const parser = new XMLParser({ ignoreAttributes: false });
  return { value: parser.parse(text), isValid: XMLValidator.validate(text) === true };
}
