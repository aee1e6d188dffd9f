import * as htmlparser2 from "htmlparser2";

/** Lists the events of a parser. */
export function events(): string[] {
  const seen: string[] = [];
  const parser = new htmlparser2.Parser({
    onopentag: (name, attributes) => seen.push(`<${name} ${JSON.stringify(attributes)}>`),
    ontext: (text) => seen.push(text),
    onclosetag: (name) => seen.push(`</${name}>`),
  });
  parser.write("Xyz <script type='text/javascript'>const foo = '<<bar>>';</script>");
  parser.end();
  return seen;
}
