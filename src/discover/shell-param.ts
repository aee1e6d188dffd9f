import type { Json, JsonSchema } from "../lib/json.ts";
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

/** A tag's fault, and its place in the text: an offset and a length. */
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

/**
 * Variables that Berth, the shell, the loader, the C library or a language reads: what they say decides which code runs,
 * and how, so a caller must not set them. A shell sets some of them itself and would not take the argument at all.
 */
const meanings = {
  berth: /^BERTH_/,
  shell:
    /^(PATH|IFS|ENV|HOME|PWD|OLDPWD|SHELL|SHELLOPTS|SHLVL|CDPATH|PS[0-9]|PROMPT_(COMMAND|DIRTRIM)|OPT(ARG|IND|ERR)|BASH.*|FPATH|FUNCNAME|FUNCNEST|FCEDIT|FIGNORE|GLOB(IGNORE|SORT)|EXECIGNORE|HIST.*|INPUTRC|COMP_.*|COMPREPLY|COPROC|DIRSTACK|PIPESTATUS|EPOCH(SECONDS|REALTIME)|SECONDS|RANDOM|SRANDOM|LINENO|PPID|E?UID|GROUPS|MACHTYPE|(HOST|OS)TYPE|HOSTNAME|MAIL(PATH|CHECK)?|MAPFILE|READLINE_.*|REPLY|CHILD_MAX|TIMEFORMAT|TMOUT|POSIXLY_CORRECT|INSIDE_EMACS|EMACS|TERM|COLUMNS|LINES|_)$/,
  loader: /^(LD_|DYLD_)/,
  library:
    /^(GLIBC_TUNABLES|GCONV_PATH|LOCPATH|NLSPATH|LANG|LANGUAGE|LC_.*|TZ|TZDIR|TMPDIR|TEMP|TMP|MALLOC_.*|RES_OPTIONS|RESOLV_.*|HOSTALIASES|LOCALDOMAIN|GETCONF_DIR|ARGP_HELP_FMT|OUTPUT_CHARSET|DATEMSK|OPENSSL_.*|SSLKEYLOGFILE|SSL_CERT_.*)$/,
  language: /^(NODE_|PYTHON|PERL|RUBY|GIT_|LUA_|AWKPATH|AWKLIBPATH|JQ_|JAVA_TOOL_|_JAVA_|CLASSPATH$)/,
} as const;
const readers = {
  berth: "Berth itself",
  shell: "the shell itself",
  loader: "the loader of programs",
  library: "the C library",
  language: "a language's own programs",
} as const satisfies Record<keyof typeof meanings, string>;

function faultOfName(name: string): string | undefined {
  if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(name)) {
    return `"${name}" cannot name an environment variable; use letters, digits and underscores`;
  }
  const reader = (Object.keys(meanings) as (keyof typeof meanings)[]).find((each) => meanings[each].test(name));
  return reader && `"${name}" has a meaning to ${readers[reader]}; name the parameter otherwise, best in lower case`;
}

function fault(code: string, message: string, offset: number, length: number): TagFault {
  return { code, message, offset, length };
}
