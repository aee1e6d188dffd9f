/** The page that makes a server has the address of a server of this name, which no server may have. */
export const NEW_SERVER = "new";

/** The address of the page that makes a server, with what is known of it. */
export function newServerAt(base: string, known: Readonly<Record<string, string>> = {}): string {
  const query = new URLSearchParams(known).toString();
  return `${base}/servers/${NEW_SERVER}${query && `?${query}`}`;
}

/**
 * The paths of one server; `base` is the path prefix of its tenant. A release's name, `server@CID`, is one path segment
 * as well.
 */
export function pathsOf(base: string, name: string): { endpoint: string; page: string; edit: string } {
  const word = encodeURIComponent(name).replaceAll("%40", "@");
  return { endpoint: `${base}/mcp/${word}`, page: `${base}/mcp/meta/${word}`, edit: `${base}/servers/${word}` };
}
