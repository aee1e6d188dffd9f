/** Replies on one connection, parsed by hand according to RFC 9112: several may follow each other. */
export interface RawReply {
  readonly status: number;
  /** The status line and the headers. */
  readonly head: string;
  /** Without chunk framing; as far as it came. */
  readonly body: string;
}

/** The replies in a text of one character per byte; throws for any other text between them. */
export function repliesOf(text: string): RawReply[] {
  const replies: RawReply[] = [];
  for (let rest = text; rest !== "";) {
    const [head, status] = /^HTTP\/1\.1 (\d{3}) [^]*?\r\n\r\n/.exec(rest) ?? [];
    if (head === undefined) throw new Error(`no reply begins here: ${rest.slice(0, 2_000)}`);
    const { body, after } = bodyOf(Number(status), head, rest.slice(head.length));
    replies.push({ status: Number(status), head, body });
    rest = after;
  }
  return replies;
}

function bodyOf(status: number, head: string, rest: string): { body: string; after: string } {
  if (status < 200 || status === 204 || status === 304) return { body: "", after: rest };
  if (/^Transfer-Encoding: chunked\r$/im.test(head)) return dechunked(rest);
  const length = /^Content-Length: (\d+)\r$/im.exec(head)?.[1];
  // Neither: the body ends with the connection.
  const end = length === undefined ? rest.length : Number(length);
  return { body: rest.slice(0, end), after: rest.slice(end) };
}

function dechunked(text: string): { body: string; after: string } {
  let body = "";
  for (let rest = text; ;) {
    const [line, size] = /^([0-9a-f]+)\r\n/i.exec(rest) ?? [];
    // It was cut off.
    if (line === undefined) return { body, after: "" };
    const end = line.length + Number.parseInt(size!, 16);
    body += rest.slice(line.length, end);
    rest = rest.slice(end + "\r\n".length);
    if (end === line.length) return { body, after: rest };
  }
}
