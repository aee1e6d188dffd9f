import { RE2JS } from "re2js";
import { parseUriTemplate, type Expression, type Variable } from "../discover/uri-template.ts";

/** A template's variables in a URI, decoded; undefined when the URI is none of the template's. */
export type TemplateMatcher = (uri: string) => Record<string, string | string[]> | undefined;

/**
 * RFC 6570 says how a template becomes a URI, and not the way back; where there are several, the first value is the
 * longest. `isList` says of which variables a value with commas is a list. It takes linear time, whatever the URI is.
 */
export function templateMatcher(text: string, isList: (variable: string) => boolean): TemplateMatcher {
  const template = parseUriTemplate(text);
  if ("message" in template) throw new TypeError(`${text} is no URI template: ${template.message}`);
  const { parts } = template;
  const expressions = parts.filter((part) => typeof part !== "string");
  const pattern = RE2JS.compile(
    `^${parts.map((part) => (typeof part === "string" ? RE2JS.quote(part) : patternOf(part))).join("")}$`,
  );
  return (uri) => {
    const matcher = pattern.matcher(uri);
    if (!matcher.find()) return undefined;
    const found: Record<string, string | string[]> = Object.create(null) as Record<string, string>;
    try {
      for (const [index, expression] of expressions.entries()) {
        const value = matcher.group(index + 1);
        if (value && !assign(found, expression, value, isList)) return undefined;
      }
    } catch {
      // Not every "%" is followed by what it stands for.
      return undefined;
    }
    return { ...found };
  };
}

/** With one group for all of the expression; the operators that bring a mark of their own may be left out. */
function patternOf({ operator, variables }: Expression): string {
  const isOne = variables.length === 1 && !variables[0]!.explode;
  switch (operator) {
    case "":
      return "([^/?#&]+)";
    case "+":
      return "(.+)";
    case "#":
      return "(?:#(.*))?";
    case ".":
      return String.raw`(?:\.([^/?#&]+))?`;
    case "/":
      return isOne ? "(?:/([^/?#]+))?" : "(?:/([^?#]+))?";
    case ";":
      return "((?:;[^/?#;]*)*)";
    case "?":
      return String.raw`(?:\?([^#]*))?`;
    case "&":
      return "(?:&([^#]*))?";
  }
}

type IsList = (variable: string) => boolean;
type Found = Record<string, string | string[]>;

function assign(found: Found, { operator, variables }: Expression, text: string, isList: IsList): boolean {
  switch (operator) {
    case ";":
      return assignNamed(found, variables, text.slice(1).split(";"), isList);
    case "?":
    case "&":
      return assignNamed(found, variables, text.split("&"), isList);
    case ".":
    case "/":
      return assignInOrder(found, variables, text, operator, isList);
    default:
      return assignInOrder(found, variables, text, ",", isList);
  }
}

/** Values one after the other; the last variable takes all that is left if it is a list. */
function assignInOrder(
  found: Found,
  variables: readonly Variable[],
  text: string,
  separator: string,
  isList: IsList,
): boolean {
  const [only] = variables;
  if (variables.length === 1 && !only!.explode) return assignValue(found, only!, text, isList);
  const values = text.split(separator);
  for (const variable of variables) {
    if (values.length === 0) return true;
    if (variable.explode) found[variable.name] = values.splice(0).map(decode);
    else if (!assignValue(found, variable, values.shift()!, isList)) return false;
  }
  return values.length === 0;
}

/** `name=value` in any order; a name that the template does not have is of another URI. */
function assignNamed(found: Found, variables: readonly Variable[], pairs: readonly string[], isList: IsList): boolean {
  for (const pair of pairs) {
    const [, name = "", value = ""] = /^([^=]*)=?(.*)$/s.exec(pair) ?? [];
    const variable = variables.find((each) => each.name === name);
    if (!variable) return false;
    if (variable.explode) found[name] = [found[name] ?? [], decode(value)].flat();
    else if (found[name] !== undefined || !assignValue(found, variable, value, isList)) return false;
  }
  return true;
}

function assignValue(found: Found, { name, prefix }: Variable, text: string, isList: IsList): boolean {
  const value = isList(name) ? text.split(",").map(decode) : decode(text);
  if (prefix !== undefined && typeof value === "string" && Array.from(value).length > prefix) return false;
  found[name] = value;
  return true;
}

function decode(text: string): string {
  return decodeURIComponent(text);
}
