/**
 * The paths of one server; `base` is the path prefix of its tenant. A release's name, `server@CID`, is one path segment
 * as well.
 */
export function pathsOf(base: string, name: string): { endpoint: string; page: string; edit: string } {
  const word = encodeURIComponent(name).replaceAll("%40", "@");
  return { endpoint: `${base}/mcp/${word}`, page: `${base}/mcp/meta/${word}`, edit: `${base}/servers/${word}` };
}
