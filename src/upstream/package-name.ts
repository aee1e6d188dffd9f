import { decodePiece, type UriPiece, type UriProblems } from "./uri-text.ts";

export interface FoundPackage {
  /** With its version, in the launcher's form: `@scope/pkg@1.2.3`, `package==1.2.3`. */
  readonly target: string;
  readonly program?: string;
}

/**
 * The valid names of packages, versions and programs. None begins with a dash, so none can be taken for an option, and
 * none can be a path, a URL or a repository.
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
const programForm = /^[A-Za-z0-9_][A-Za-z0-9._-]*$/;

/** `[@scope/]name[@version][/program]`; undefined if it is invalid, with the problem reported. */
export function readPackage(launcher: "npx" | "uvx", path: UriPiece, problems: UriProblems): FoundPackage | undefined {
  const { name: nameForm, version: versionForm, example } = forms[launcher];
  const text = decodePiece(path, problems);
  if (text === undefined) return undefined;
  if (text === "") return problems.add("missing-package", path.offset, `Which package? Write ${example}.`);
  const parts = text.split("/");
  const wanted = text.startsWith("@") && launcher === "npx" ? 2 : 1;
  if (parts.length < wanted || parts[wanted - 1] === "") {
    return problems.add("missing-package", path.offset, `"${text}" names a scope and no package; write ${example}.`);
  }
  if (parts.length > wanted + 1) {
    return problems.add("bad-package", path.offset, `"${text}" has too many slashes; write ${example}.`);
  }
  const named = parts.slice(0, wanted).join("/");
  const at = named.indexOf("@", 1);
  const name = at === -1 ? named : named.slice(0, at);
  const version = at === -1 ? undefined : named.slice(at + 1);
  const program = parts[wanted];
  if (!nameForm.test(name)) {
    return problems.add("bad-package", path.offset, `"${name}" is not the name of a package; write ${example}.`);
  }
  if (version !== undefined && !versionForm.test(version)) {
    return problems.add("bad-version", path.offset + at + 1, `"${version}" is not a version, a range or a tag.`);
  }
  if (program !== undefined && !programForm.test(program)) {
    const offset = path.offset + named.length + 1;
    return problems.add("bad-program", offset, `"${program}" is not the name of a program of a package.`);
  }
  return { target: version === undefined ? name : `${name}@${version}`, ...(program !== undefined && { program }) };
}
