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
