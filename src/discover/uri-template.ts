/** URI templates (RFC 6570, all levels) and URIs (RFC 3986), for discovery and for the host. */
export interface UriTemplate {
  readonly parts: readonly (string | Expression)[];
  /** In the order of the template. */
  readonly variables: readonly Variable[];
}

export interface Expression {
  readonly operator: Operator;
  readonly variables: readonly Variable[];
}

export type Operator = "" | "+" | "#" | "." | "/" | ";" | "?" | "&";

export interface Variable {
  readonly name: string;
  /** `{list*}`: each element or pair separately. */
  readonly explode: boolean;
  /** `{name:3}`: at most this many characters of the value. */
  readonly prefix?: number;
  /** Offset of its name in the template, in UTF-16 code units. */
  readonly offset: number;
}

/** A sentence about the fault, and the range of the text that it concerns. */
export interface TemplateFault {
  readonly message: string;
  readonly offset: number;
  readonly length: number;
}

/** True if a text that was parsed without a fault has variables. */
export function isTemplate(uri: string): boolean {
  return uri.includes("{");
}

/** Limit of URIs and of URI templates, in UTF-16 code units; longer ones do not occur in practice. */
export const URI_UNITS_MAX = 8_192;

/** Parses a URI template, or returns why it is invalid. A URI without variables is also a template. */
export function parseUriTemplate(text: string): UriTemplate | TemplateFault {
  if (text.length > URI_UNITS_MAX) {
    return { message: `it has more than ${URI_UNITS_MAX} characters`, offset: URI_UNITS_MAX, length: 1 };
  }
  const parts: (string | Expression)[] = [];
  const variables: Variable[] = [];
  let sample = "";
  for (let at = 0; at < text.length;) {
    const open = text.indexOf("{", at);
    const literal = text.slice(at, open < 0 ? undefined : open);
    const stray = literal.indexOf("}");
    if (stray >= 0) return { message: 'this "}" has no matching "{"', offset: at + stray, length: 1 };
    if (literal !== "") parts.push(literal);
    sample += literal;
    if (open < 0) break;
    const close = text.indexOf("}", open);
    if (close < 0) return { message: 'this "{" is never closed', offset: open, length: 1 };
    const expression = parseExpression(text.slice(open + 1, close), open + 1);
    if ("message" in expression) return expression;
    parts.push(expression);
    variables.push(...expression.variables);
    sample += sampleExpansion(expression);
    at = close + 1;
  }
  const names = new Set<string>();
  const repeated = variables.find(({ name }) => names.size === names.add(name).size);
  if (repeated) {
    const { name, offset } = repeated;
    return { message: `the variable "${name}" appears twice`, offset, length: name.length };
  }
  const fault = findUriFault(sample);
  return fault === undefined ? { parts, variables } : { message: fault, offset: 0, length: text.length };
}

function parseExpression(body: string, start: number): Expression | TemplateFault {
  const operator = "+#./;?&".includes(body.charAt(0)) ? body.charAt(0) : "";
  const variables: Variable[] = [];
  let offset = start + operator.length;
  for (const spec of body.slice(operator.length).split(",")) {
    const match = VARIABLE.exec(spec);
    if (!match) {
      const message = `"${spec}" is not a variable of a URI template (RFC 6570)`;
      return { message, offset, length: Math.max(spec.length, 1) };
    }
    const [, name = "", explode, prefix] = match;
    variables.push({ name, explode: explode !== undefined, ...(prefix && { prefix: Number(prefix) }), offset });
    offset += spec.length + 1;
  }
  return { operator: operator as Operator, variables };
}

const VARIABLE = /^((?:\w|%[\da-f]{2})(?:\.?(?:\w|%[\da-f]{2}))*)(?:(\*)|:([1-9]\d{0,3}))?$/i;

/** A possible expansion of the expression, so that the whole can be checked as a URI. */
function sampleExpansion({ operator, variables }: Expression): string {
  switch (operator) {
    case ";":
    case "?":
    case "&":
      return `${operator}${variables[0]!.name}=x`;
    case "+":
    case "":
      return "x";
    default:
      return `${operator}x`;
  }
}

const unreserved = String.raw`[\w.~-]|%[\dA-Fa-f]{2}`;
const inPath = String.raw`${unreserved}|[!$&'()*+,;=:@]`;
const authority = String.raw`(?:(?:${unreserved}|[!$&'()*+,;=:])*@)?(?:\[[\dA-Za-z:.]+\]|(?:${unreserved}|[!$&'()*+,;=])*)(?::\d*)?`;
const uri = new RegExp(
  String.raw`^[A-Za-z][A-Za-z\d+.-]*:(?://${authority}(?:/(?:${inPath})*)*|(?:${inPath}|/)+)` +
    String.raw`(?:\?(?:${inPath}|[/?])*)?(?:#(?:${inPath}|[/?])*)?$`,
);

/** Why a text is not an absolute URI, as a sentence; undefined if it is one. */
export function findUriFault(text: string): string | undefined {
  if (uri.test(text)) return undefined;
  if (!/^[A-Za-z][A-Za-z\d+.-]*:/.test(text)) return "a URI begins with a scheme, as in data://report";
  const bad = /[^\w.~!$&'()*+,;=:@/?#[\]%-]/u.exec(text)?.[0];
  return bad === undefined
    ? "it is not a URI (RFC 3986)"
    : `a URI cannot contain ${JSON.stringify(bad)}; write ${encodeURIComponent(bad)}`;
}
