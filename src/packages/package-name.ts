/** `@scope/name/sub` → `@scope/name`. */
export function packageName(specifier: string): string {
  return specifier
    .split("/")
    .slice(0, specifier.startsWith("@") ? 2 : 1)
    .join("/");
}

/** The package with the types of another one that has none: `@types/name`, `@types/scope__name`. */
export function typesOf(name: string): string {
  return `@types/${name.replace(/^@/, "").replace("/", "__")}`;
}

/** npm's rule for the length of a name. */
const NAME_UNITS_MAX = 214;
const PART = "[a-z0-9~][a-z0-9._~-]*";
/** Old packages have capitals, which new ones may not have. None begins as an option of a command does. */
const NAME = new RegExp(`^(?:@${PART}/)?${PART}$`, "i");
const RESERVED: ReadonlySet<string> = new Set(["node_modules", "favicon.ico"]);

/** True for what npm lets a package be called. Such a name leads out of no folder and no registry. */
export function isPackageName(name: string): boolean {
  return name.length <= NAME_UNITS_MAX && NAME.test(name) && !RESERVED.has(name.toLowerCase());
}

/** `node_modules/a/node_modules/@s/b` → `["a", "@s/b"]`; undefined for what is no place of an installed package. */
export function namesInPlace(place: string): readonly string[] | undefined {
  if (!place.startsWith(FOLDER)) return undefined;
  const names = place.slice(FOLDER.length).split(`/${FOLDER}`);
  return names.length <= DEPTH_MAX && names.every(isPackageName) ? names : undefined;
}

const FOLDER = "node_modules/";
/** A package deeper than that is no work of npm's. */
const DEPTH_MAX = 64;

/** True for one exact version (semver.org); a range, a tag, or an address is none. */
export function isExactVersion(version: string): boolean {
  return version.length <= VERSION_UNITS_MAX && VERSION.test(version);
}

const VERSION_UNITS_MAX = 256;
const VERSION =
  /^(?:0|[1-9]\d*)(?:\.(?:0|[1-9]\d*)){2}(?:-(?:0|[1-9]\d*|\d*[a-z-][\da-z-]*)(?:\.(?:0|[1-9]\d*|\d*[a-z-][\da-z-]*))*)?(?:\+[\da-z-]+(?:\.[\da-z-]+)*)?$/i;

/** The types of what Node brings along. */
export const NODE_TYPES = "@types/node";
