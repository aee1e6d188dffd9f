import type { Json, JsonSchema } from "../json.ts";
import type { HeaderTag } from "./shell-header.ts";
import { shellDefault, shellType } from "./shell-types.ts";

/** One `@param` of a script's header. */
export interface ShellParam {
  readonly name: string;
  readonly schema: JsonSchema;
  readonly isOptional: boolean;
  readonly default?: Json;
  readonly description: string;
}

/** What is wrong with a tag, and where in its text: an offset and a length. */
export interface TagFault {
  readonly code: string;
  readonly message: string;
  readonly offset: number;
  readonly length: number;
}

/** Reads `{type} name - text`, or `{type} [name=default] - text`. */
export function readParam({ text }: HeaderTag): ShellParam | TagFault {
  const typed = /^\{([^{}]*)\}\s*/.exec(text);
  if (!typed && text.startsWith("{")) return fault("malformed-param", "the type has no closing brace", 0, text.length);
  const type = typed?.[1] ?? "string";
  const schema = shellType(type);
  if (!schema) {
    const message = `"${type}" is no type for a script; use string, number, integer, boolean, "one" | "other", or a list such as string[]`;
    return fault("unknown-type", message, typed ? 1 : 0, type.length);
  }

  const start = typed?.[0].length ?? 0;
  const rest = text.slice(start);
  const plain = /^([^\s[\]=]+)/.exec(rest);
  const bracketed = plain ? undefined : /^\[\s*([^\s[\]=]+)\s*(=)?/.exec(rest);
  const name = plain?.[1] ?? bracketed?.[1];
  if (name === undefined) {
    return fault(
      "malformed-param",
      "after @param and its type comes a name: @param {string} text - The text",
      start,
      1,
    );
  }
  const nameAt = start + rest.indexOf(name);
  const wrongName = faultOfName(name);
  if (wrongName) return fault("bad-param-name", wrongName, nameAt, name.length);
  if (!bracketed) return param(name, schema, undefined, rest.slice(name.length));

  const value = bracketed[2] ? readValue(rest.slice(bracketed[0].length)) : readEnd(rest.slice(bracketed[0].length));
  if (!value) return fault("malformed-param", `[${name} has no closing bracket`, start, name.length + 1);
  const after = rest.slice(bracketed[0].length + value.length);
  if (!bracketed[2]) return { ...param(name, schema, undefined, after), isOptional: true };
  const fallback = shellDefault(value.text, schema);
  if (fallback === undefined) {
    const message = `the default ${value.text || "(nothing)"} is no ${type}`;
    return fault("bad-default", message, start + bracketed[0].length, Math.max(1, value.text.length));
  }
  return { ...param(name, schema, fallback, after), isOptional: true };
}

function param(name: string, schema: JsonSchema, fallback: Json | undefined, after: string): ShellParam {
  const description = after.trim().replace(/^[-–—:]\s*/, "");
  return { name, schema, isOptional: false, description, ...(fallback === undefined ? {} : { default: fallback }) };
}

/** Up to the closing bracket; JSON in quotes or brackets may hold one itself. */
function readValue(text: string): { text: string; length: number } | undefined {
  const found = /^\s*("(?:[^"\\]|\\.)*"|\[(?:[^\]"]|"(?:[^"\\]|\\.)*")*\]|[^\]\n]*)\s*\]/.exec(text);
  return found ? { text: found[1]!.trim(), length: found[0].length } : undefined;
}

function readEnd(text: string): { text: string; length: number } | undefined {
  const found = /^\s*\]/.exec(text);
  return found ? { text: "", length: found[0].length } : undefined;
}

/** Variables that decide which code a shell, a linker or a language runs: a caller must not set them. */
const steering =
  /^(PATH|IFS|ENV|HOME|PWD|OLDPWD|SHELL|SHELLOPTS|TMPDIR|CDPATH|PS[0-9]|PROMPT_COMMAND|OPT(ARG|IND|ERR)|LD_.*|DYLD_.*|BASH.*|NODE_.*|PYTHON.*|PERL.*|RUBY.*|GIT_.*|GCONV_PATH|LOCPATH|_)$/;

function faultOfName(name: string): string | undefined {
  if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(name)) {
    return `"${name}" cannot name an environment variable; use letters, digits and underscores`;
  }
  return steering.test(name) ? `"${name}" steers the shell itself; name the parameter in lower case` : undefined;
}

function fault(code: string, message: string, offset: number, length: number): TagFault {
  return { code, message, offset, length };
}
