/** Texts by path, as the JSON API has them. */
export interface Draft {
  /** The path of the main text. */
  readonly entry: string;
  readonly files: Readonly<Record<string, string>>;
}

export function isSameDraft(one: Draft, other: Draft): boolean {
  const paths = Object.keys(one.files);
  return (
    one.entry === other.entry &&
    paths.length === Object.keys(other.files).length &&
    paths.every((path) => one.files[path] === other.files[path])
  );
}
