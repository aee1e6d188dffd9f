import { nearestName } from "../../lib/near-names.ts";
import type { Problem } from "../../lib/problem.ts";
import type { Launch, Launcher } from "./launch.ts";
import { readOperation, type Operation } from "./operation.ts";
import { readProgramKeys, readRemoteKeys } from "./query-keys.ts";
import { decodePiece, splitQuery, UriProblems, type UriPiece, type QueryPair } from "./uri-text.ts";

/**
 * Launcher URIs: `mcp+{npx,uvx,python,node,exec,http,https}://…?…`, parsed strictly. Pure: uses no file, variable or
 * network. Finds every problem in one pass, with its position. The rules: docs/launcher-uris.md.
 */
type ParsedLauncher =
  | { readonly launch: Launch; readonly operation: Operation; readonly problems?: undefined }
  | { readonly problems: readonly Problem[]; readonly launch?: undefined };

const launchers: readonly Launcher[] = ["npx", "uvx", "python", "node", "exec", "http", "https"];
const URI_LENGTH_MAX = 64 * 1024;

export function parseLauncher(uri: string): ParsedLauncher {
  const problems = new UriProblems(uri);
  const parsed = parse(uri, problems);
  return parsed === undefined || problems.list.length > 0 ? { problems: problems.list } : parsed;
}

/** Like `parseLauncher`, for an entry, which starts a server and calls nothing. */
export function parseServer(uri: string): ParsedLauncher {
  const parsed = parseLauncher(uri);
  if (parsed.problems) return parsed;
  const { launch, operation } = parsed;
  const [{ name } = { name: Object.keys(operation.arguments.json)[0] }] = operation.arguments.texts;
  const extra = operation.target?.kind ?? name;
  if (extra === undefined) return parsed;
  const problems = new UriProblems(uri);
  const isOfUrl = !operation.target && (launch.launcher === "http" || launch.launcher === "https");
  const hint = isOfUrl ? `; write "query.${extra}=" for a parameter of the server's URL` : "";
  const message = `An entry says how to start a server and calls nothing; leave out "${extra}="${hint}.`;
  problems.add("not-a-server", uri.indexOf("?") + 1, message);
  return { problems: problems.list };
}

function parse(uri: string, problems: UriProblems): { launch: Launch; operation: Operation } | undefined {
  if (uri.length > URI_LENGTH_MAX) return problems.add("too-long", 0, `More than ${URI_LENGTH_MAX} characters.`);
  // oxlint-disable-next-line no-control-regex -- matches control characters on purpose
  const control = /[\u0000-\u001f\u007f]/.exec(uri);
  if (control) return problems.add("bad-character", control.index, "A control character must be percent-encoded.");
  const scheme = /^mcp\+([^:/?#]*):\/\//.exec(uri);
  if (!scheme) {
    const suggested = suggestLauncher(uri);
    const suggestion = suggested === undefined ? "." : `; did you mean ${suggested}?`;
    return problems.add(
      "not-a-launcher",
      0,
      `A launcher URI begins with ${launchers.map(prefix).join(", ")}${suggestion}`,
    );
  }
  const launcher = launchers.find((name) => name === scheme[1]);
  if (launcher === undefined) {
    const valid = launchers.join(", ");
    const suggested = scheme[1] === "npm" ? "npx" : nearestName(scheme[1]!, launchers);
    const suggestion = suggested === undefined ? "" : ` Did you mean mcp+${suggested}://?`;
    return problems.add("unknown-launcher", 4, `There is no launcher "${scheme[1]}"; there are ${valid}.${suggestion}`);
  }
  const fragment = uri.indexOf("#");
  if (fragment !== -1) {
    return problems.add("fragment", fragment, "A launcher URI has no fragment; a literal # is written %23.");
  }

  const question = uri.indexOf("?");
  const pathEnd = question === -1 ? uri.length : question;
  const path: UriPiece = { text: uri.slice(scheme[0].length, pathEnd), offset: scheme[0].length };
  const query = splitQuery({ text: uri.slice(pathEnd + 1), offset: pathEnd + 1 }, problems);
  const launch = readLaunch(uri, launcher, path, query, problems);
  const operation = readOperation(query, problems);
  return launch && operation && { launch, operation };
}

/** The launcher URI probably meant by a URL, a script, a package, or the command that starts one. */
export function suggestLauncher(text: string): string | undefined {
  if (text.length > SUGGESTION_UNITS_MAX) return undefined;
  const [, command, packageName] = /^(npx|uvx)(?: +-{1,2}[\w-]+)* +([^ -][^ ]*)/.exec(text) ?? [];
  if (command !== undefined) return `mcp+${command}://${packageName}`;
  if (/\s/.test(text)) return undefined;
  if (/^(?:npx|uvx|python|node):\/\//.test(text)) return `mcp+${text}`;
  if (/^https?:\/\//.test(text)) return launcherFromUrl(text.replace(/([?&])query\./g, "$1"));
  if (text.includes("://")) return undefined;
  const [, script = "", ending] = /^([^?:]+\.(py|js|mjs|cjs))(?:\?|$)/.exec(text) ?? [];
  if (script !== "")
    return `mcp+${ending === "py" ? "python" : "node"}://${/^\.{0,2}\//.test(script) ? "" : "./"}${text}`;
  if (/^(?:localhost|127\.0\.0\.1|\[::1\])(?::\d+)?(?:\/|$)/.test(text)) return `mcp+http://${text}`;
  if (/^[\w-]+(?:\.[\w-]+)+(?::\d+)?\//.test(text)) return `mcp+https://${text}`;
  const [, name = "", version] = /^((?:@[^@/?]+\/)?[^@/?]+)(?:@([^/?]+))?(?:[/?].*)?$/.exec(text) ?? [];
  const isPackage = forms.npx.name.test(name) && (version === undefined || forms.npx.version.test(version));
  return isPackage ? `mcp+npx://${text}` : undefined;
}

/**
 * The launcher URI of a plain URL, whose query is part of the address. Anything else is returned unchanged, and
 * reported when it is parsed.
 */
export function launcherFromUrl(text: string): string {
  if (!/^https?:\/\//i.test(text)) return text;
  const [address = ""] = text.split(/[?#]/, 1);
  const rest = text.slice(address.length);
  const [query = "", ...fragment] = rest.replace(/^\?/, "").split("#");
  const pairs = [...new URLSearchParams(rest.startsWith("?") ? query : "")].map(
    ([name, value]) => `query.${encodeURIComponent(name)}=${encodeURIComponent(value)}`,
  );
  const queryText = pairs.length > 0 ? `?${pairs.join("&")}` : "";
  return `mcp+${address.replace(/^https?/i, (scheme) => scheme.toLowerCase())}${queryText}${fragment.length > 0 ? `#${fragment.join("#")}` : ""}`;
}

/** Longer text is not a mistyped name. */
const SUGGESTION_UNITS_MAX = 256;

/** The name between `://` and `?`. The folders of a script belong to the host and are hidden from callers. */
export function launchedName(launcher: string, path: string): string {
  return launcher === "node" || launcher === "python" || launcher === "exec"
    ? path.replace(/^.*(?:\/|%2f)(?=.)/is, "")
    : path;
}

function readLaunch(
  uri: string,
  launcher: Launcher,
  path: UriPiece,
  query: readonly QueryPair[],
  problems: UriProblems,
): Launch | undefined {
  const name = launchedName(launcher, path.text);
  switch (launcher) {
    case "http":
    case "https": {
      const url = readUrl(launcher, path, problems);
      const keys = readRemoteKeys(query, problems);
      return url === undefined ? undefined : { uri, name, launcher, url, ...keys };
    }
    case "npx":
    case "uvx": {
      const packageLaunch = readPackage(launcher, path, problems);
      const keys = readProgramKeys(query, problems);
      return packageLaunch && { uri, name, launcher, ...packageLaunch, ...keys };
    }
    case "python":
    case "node":
    case "exec": {
      const keys = readProgramKeys(query, problems);
      const target = decodePiece(path, problems);
      if (target === "") {
        const what = launcher === "exec" ? `program? Write ${prefix(launcher)}name or` : "script? Write";
        return problems.add("missing-script", path.offset, `Which ${what} ${prefix(launcher)}./path.`);
      }
      if (target === undefined) return undefined;
      if (launcher === "exec") return { uri, name, launcher: "program", target, ...keys, hasVariablesInArgs: true };
      return { uri, name, launcher, target, ...keys };
    }
  }
}

function readUrl(launcher: "http" | "https", { text, offset }: UriPiece, problems: UriProblems): string | undefined {
  const authority = text.split("/", 1)[0]!;
  if (authority === "") return problems.add("missing-host", offset, `Which host? Write ${prefix(launcher)}host/path.`);
  if (authority.includes("@")) {
    return problems.add(
      "credentials",
      offset,
      "Put user names and passwords into header.Authorization=…, not into the URI.",
    );
  }
  const url = `${launcher}://${text}`;
  return URL.canParse(url) ? new URL(url).href : problems.add("bad-url", offset, `"${url}" is not a URL.`);
}

function prefix(launcher: Launcher): string {
  return `mcp+${launcher}://`;
}

interface PackageLaunch {
  /** With its version, in the launcher's form: `@scope/pkg@1.2.3`, `package==1.2.3`. */
  readonly target: string;
  readonly program?: string;
}

/**
 * Valid names of packages, versions and programs. None begins with a dash, so none can be taken for an option, and none
 * can be a path, a URL or a repository.
 */
const forms = {
  npx: {
    name: /^(?:@[a-z0-9~-][a-z0-9._~-]*\/)?[A-Za-z0-9~][A-Za-z0-9._~-]*$/,
    version: /^[A-Za-z0-9^~<>=*][A-Za-z0-9.^~<>=*|+-]*$/,
    example: "mcp+npx://@scope/package@1.2.3",
  },
  uvx: {
    name: /^[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?(?:\[[A-Za-z0-9._,-]+\])?$/,
    version: /^[A-Za-z0-9][A-Za-z0-9.!+_-]*$/,
    example: "mcp+uvx://package@1.2.3/program",
  },
} as const;
/** npm and uv treat such a name or version as a file in the current folder. */
const archive = /\.(?:tgz|tar|tar\.\w+|whl|zip)$/i;
const programForm = /^[A-Za-z0-9_][A-Za-z0-9._-]*$/;

/** `[@scope/]name[@version][/program]`; undefined if it is invalid, with the problem reported. */
function readPackage(launcher: "npx" | "uvx", path: UriPiece, problems: UriProblems): PackageLaunch | undefined {
  const { name: nameForm, version: versionForm, example } = forms[launcher];
  const text = decodePiece(path, problems);
  if (text === undefined) return undefined;
  if (text === "") return problems.add("missing-package", path.offset, `Which package? Write ${example}.`);
  const parts = text.split("/");
  const nameParts = text.startsWith("@") && launcher === "npx" ? 2 : 1;
  if (parts.length < nameParts || parts[nameParts - 1] === "") {
    return problems.add("missing-package", path.offset, `"${text}" names a scope but no package; write ${example}.`);
  }
  if (parts.length > nameParts + 1) {
    return problems.add("bad-package", path.offset, `"${text}" has too many slashes; write ${example}.`);
  }
  const spec = parts.slice(0, nameParts).join("/");
  const at = spec.indexOf("@", 1);
  const name = at === -1 ? spec : spec.slice(0, at);
  const version = at === -1 ? undefined : spec.slice(at + 1);
  const program = parts[nameParts];
  if (!nameForm.test(name) || archive.test(name)) {
    return problems.add("bad-package", path.offset, `"${name}" is not a package name; write ${example}.`);
  }
  if (version !== undefined && (!versionForm.test(version) || archive.test(version))) {
    return problems.add("bad-version", path.offset + at + 1, `"${version}" is not a version, a range or a tag.`);
  }
  if (program !== undefined && !programForm.test(program)) {
    const offset = path.offset + spec.length + 1;
    return problems.add("bad-program", offset, `"${program}" is not the name of a package's program.`);
  }
  return { target: version === undefined ? name : `${name}@${version}`, ...(program !== undefined && { program }) };
}
