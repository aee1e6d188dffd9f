import { evaluate, parse, type Location } from "@humanwhocodes/momoa";
import { codeFrame } from "../../lib/code-frame.ts";
import { isObject } from "../../lib/json.ts";
import type { Problem } from "../../lib/problem.ts";
import { isRelative, type OwnFile, resolveOwnFile } from "./resolve.ts";

/** The file with a definition's path aliases, at the top of the source folder; `extends` is not followed. */
export const TSCONFIG = "tsconfig.json";

export interface PathAliases {
  /** Resolves a relative import or an alias, which may still be a package. Nothing is tried for others. */
  readonly resolve: typeof resolveOwnFile;
  /** True if an alias matches, or might match if the file could be read; absent without aliases. */
  readonly mayMatch?: (specifier: string) => boolean;
  /** Why the file cannot be read. */
  readonly fault?: Problem;
}

/** Reads the aliases of a definition: `compilerOptions.paths` in its `tsconfig.json`. Loads no compiler. */
export function readPathAliases({ [TSCONFIG]: text = "" }: Readonly<Record<string, string>>): PathAliases {
  const json = text.replace(/^\uFEFF/, "");
  try {
    const config = json.trim() === "" ? {} : evaluate(parse(json, { mode: "jsonc", allowTrailingCommas: true }));
    const options = isObject(config) && isObject(config["compilerOptions"]) ? config["compilerOptions"] : {};
    const { paths, baseUrl } = options;
    const folder = typeof baseUrl === "string" ? `${baseUrl}/` : "";
    const all = Object.entries(isObject(paths) ? paths : {}).flatMap(([pattern, targets]): Target[] => {
      const [head = "", tail] = pattern.split("*");
      const texts = [targets].flat().filter((target) => typeof target === "string");
      return texts.map((text) => ({ pattern, head, tail, target: text.startsWith("/") ? text : folder + text }));
    });
    if (all.length > TARGETS_MAX) throw new Error(`compilerOptions.paths has more than ${TARGETS_MAX} targets`);
    return withTargets(all);
  } catch (error) {
    const { message, line = 1, column = 1, offset } = error as Error & Partial<Location>;
    const unexpected = json[offset ?? 0] ? `${JSON.stringify(json[offset!])} is unexpected here` : "it ends too early";
    const why = `The aliases in ${TSCONFIG} cannot be read: ${offset === undefined ? message : unexpected}.`;
    const frame = codeFrame(json.split(/\r\n|[\n\r]/)[line - 1] ?? "", line, column);
    const place = { file: TSCONFIG, line, column, frame };
    const fault: Problem = { code: "bad-tsconfig", message: why, severity: "error", ...place };
    return { ...withTargets([]), mayMatch: (specifier) => !NO_ALIAS.test(specifier), fault };
  }
}

/** Each import is compared with all targets, in the serving process as well. */
const TARGETS_MAX = 256;

const NO_ALIAS = /^(?:\.{1,2}(?:\/|$)|node:|berth$)/;

/** One target of a pattern. The pattern has a head before its `*` and a tail after it; an exact name has no tail. */
type Target = Readonly<{ pattern: string; head: string; tail: string | undefined; target: string }>;

function withTargets(all: readonly Target[]): PathAliases {
  const rank = ({ head, tail }: Target): number => (tail === undefined ? Number.MAX_VALUE : head.length);
  const longestFirst = all.toSorted((one, other) => rank(other) - rank(one));
  const matches = (specifier: string, { head, tail }: Target): boolean => {
    if (tail === undefined) return specifier === head;
    const isLongEnough = specifier.length >= head.length + tail.length;
    return isLongEnough && specifier.startsWith(head) && specifier.endsWith(tail);
  };
  const findTargets = (specifier: string): string[] => {
    const best = NO_ALIAS.test(specifier) ? undefined : longestFirst.find((each) => matches(specifier, each));
    return longestFirst
      .filter(({ pattern }) => pattern === best?.pattern)
      .map(({ head, tail = "", target }) => {
        const star = specifier.slice(head.length, specifier.length - tail.length);
        return target.replace("*", () => star);
      });
  };
  return {
    ...(all.length > 0 && { mayMatch: (specifier) => findTargets(specifier).length > 0 }),
    resolve(importer, specifier, exists): OwnFile {
      if (isRelative(specifier)) return resolveOwnFile(importer, specifier, exists);
      // An absolute path is outside of the source folder.
      const paths = findTargets(specifier).map((target) => (target.startsWith("/") ? `..${target}` : target));
      const resolved = paths.map((path) => resolveOwnFile("", path, exists));
      const tried = resolved.flatMap((result) => (result.kind === "missing" ? result.tried : []));
      const isOutside = resolved.length > 0 && tried.length === 0;
      const failure: OwnFile = isOutside ? { kind: "outside" } : { kind: "missing", tried };
      return resolved.find(({ kind }) => kind === "file") ?? failure;
    },
  };
}
