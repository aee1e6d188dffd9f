/**
 * Paths of one server's addresses; `base` is what stands before every path of its tenant. A release's name,
 * `server@CID`, is one word of a path as well.
 */
export function pathsOf(base: string, name: string): { endpoint: string; page: string; edit: string } {
  const word = encodeURIComponent(name).replaceAll("%40", "@");
  return { endpoint: `${base}/mcp/${word}`, page: `${base}/mcp/meta/${word}`, edit: `${base}/servers/${word}` };
}
