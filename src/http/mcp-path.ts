/**
 * The addresses of MCP endpoints: `/mcp` of all servers, and `/mcp/<server>`, which may have one more `/mcp` at its end,
 * because some clients take only that for an endpoint, and change every other address. `/mcp/meta/<server>` is a page,
 * whatever the server's name is. The groups are the server, as written, and that end.
 */
export const MCP_PATH = /^\/mcp(?:\/(?!meta\/mcp)([^/?]+)(\/mcp)?)?\/?(?:\?|$)/;
