/** The media type for a file name's extension; undefined if unknown. `name` may be a path or a URI. */
export function mediaTypeFor(name: string): string | undefined {
  const extension = /\.([a-z0-9]+)$/i.exec(name)?.[1]?.toLowerCase();
  return extension === undefined ? undefined : TYPES.get(extension);
}

const TYPES: ReadonlyMap<string, string> = new Map(
  (
    [
      ["text/markdown", "md markdown"],
      ["text/plain", "txt log"],
      ["text/html", "html htm"],
      ["text/css", "css"],
      ["text/csv", "csv"],
      ["text/tab-separated-values", "tsv"],
      ["text/javascript", "js mjs cjs"],
      ["text/x-typescript", "ts mts cts tsx"],
      ["text/x-python", "py"],
      ["text/x-shellscript", "sh bash zsh"],
      ["text/x-ruby", "rb"],
      ["text/x-go", "go"],
      ["text/x-rust", "rs"],
      ["application/json", "json"],
      ["application/jsonl", "jsonl ndjson"],
      ["application/yaml", "yaml yml"],
      ["application/toml", "toml"],
      ["application/xml", "xml xsd"],
      ["application/sql", "sql"],
      ["application/graphql", "graphql"],
      ["application/pdf", "pdf"],
      ["application/zip", "zip"],
      ["application/gzip", "gz"],
      ["application/wasm", "wasm"],
      ["image/svg+xml", "svg"],
      ["image/png", "png"],
      ["image/jpeg", "jpg jpeg"],
      ["image/gif", "gif"],
      ["image/webp", "webp"],
      ["image/x-icon", "ico"],
    ] as const
  ).flatMap(([type, extensions]) => extensions.split(" ").map((extension) => [extension, type] as const)),
);
