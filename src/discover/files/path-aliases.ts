import { evaluate, parse, type Location } from "@humanwhocodes/momoa";
import { codeFrame } from "../../lib/code-frame.ts";
import { isObject } from "../../lib/json.ts";
import type { Problem } from "../../lib/problem.ts";
import { isRelative, type OwnFile, resolveOwnFile } from "./resolve.ts";

/** The file with a definition's aliases, at the top of the folder of sources; `extends` is not followed. */
export const TSCONFIG = "tsconfig.json";

export interface PathAliases {
  /**
   * The file that a relative import or an alias leads to. An alias that leads to none may still be a package, as in
   * TypeScript. Any other import is missing, and nothing was tried for it.
   */
  readonly resolve: typeof resolveOwnFile;
  /** True for what an alias matches, or might if they could be read; absent without aliases. */
  readonly mayHave?: (specifier: string) => boolean;
  /** Why the file cannot be read. */
  readonly fault?: Problem;
}

/** The aliases of a definition: `compilerOptions.paths` in its `tsconfig.json`. Loads no compiler. */
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
    return { ...withTargets([]), mayHave: (specifier) => !NO_ALIAS.test(specifier), fault };
  }
}

/** Each import is compared with all of them, in the serving process, too. */
const TARGETS_MAX = 256;

const NO_ALIAS = /^(?:\.{1,2}(?:\/|$)|node:|berth$)/;

/** One target of a pattern, which has a text before its `*` and one after it, or is a name and has no `tail`. */
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
    ...(all.length > 0 && { mayHave: (specifier) => findTargets(specifier).length > 0 }),
    resolve(importer, specifier, exists): OwnFile {
      if (isRelative(specifier)) return resolveOwnFile(importer, specifier, exists);
      // An absolute path is one outside.
      const paths = findTargets(specifier).map((target) => (target.startsWith("/") ? `..${target}` : target));
      const found = paths.map((path) => resolveOwnFile("", path, exists));
      const tried = found.flatMap((each) => (each.kind === "missing" ? each.tried : []));
      const isOutside = found.length > 0 && tried.length === 0;
      const none: OwnFile = isOutside ? { kind: "outside" } : { kind: "missing", tried };
      return found.find(({ kind }) => kind === "file") ?? none;
    },
  };
}
