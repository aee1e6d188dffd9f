/** Paths of one server's addresses. A release's name, `server@CID`, is one word of a path as well. */
export function pathsOf(name: string): { endpoint: string; page: string; edit: string } {
  const word = encodeURIComponent(name).replaceAll("%40", "@");
  return { endpoint: `/mcp/${word}`, page: `/mcp/meta/${word}`, edit: `/servers/${word}` };
}
