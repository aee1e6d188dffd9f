/** Server settings for VS Code and Cursor, as their documentation has them ("MCP install links", "MCP URL handler"). */

/** A server as VS Code's command and link take it. */
interface VsCodeServer {
  readonly name: string;
  readonly type: "http";
  readonly url: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** The inputs that VS Code asks its user for, and keeps in its secret storage. */
  readonly inputs?: readonly object[];
}

export function vsCodeServer(name: string, url: string, isGiven: boolean): VsCodeServer {
  const id = `${name}-token`;
  return {
    name,
    type: "http",
    url,
    ...(isGiven && {
      headers: { Authorization: `Bearer \${input:${id}}` },
      inputs: [{ type: "promptString", id, description: `Token for ${name}`, password: true }],
    }),
  };
}

export function vsCodeFile({ name, inputs, ...server }: VsCodeServer): string {
  return JSON.stringify({ ...(inputs && { inputs }), servers: { [name]: server } }, null, 2);
}

/** Opens VS Code, which asks first. It unescapes twice, so the JSON has no escapes left for the second time. */
export function vsCodeLink(server: VsCodeServer): string {
  return `vscode:mcp/install?${encodeURIComponent(JSON.stringify(server).replaceAll("%", "\\u0025"))}`;
}

/** Opens Cursor, which asks first, too. */
export function cursorLink(name: string, server: object): string {
  const config = Buffer.from(JSON.stringify(server)).toString("base64");
  return `cursor://anysphere.cursor-deeplink/mcp/install?name=${name}&config=${encodeURIComponent(config)}`;
}
