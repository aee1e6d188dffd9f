/** A server that others wrote, as a person names it: by a URL or by an npm package. */
export interface UpstreamWish {
  readonly name: string;
  readonly url?: string;
  readonly package?: string;
  readonly arguments: readonly string[];
  /** The secret that is sent as a token to a URL; those that a package gets as its environment. */
  readonly secrets: readonly string[];
  readonly description: string;
}

/** The launcher URI of it (docs/launcher-uris.md); the API says what is wrong with it. */
export function upstreamUri({ url, package: name = "", arguments: given, secrets }: UpstreamWish): string | Fault {
  if (url !== undefined) return uriOfUrl(url, secrets[0]);
  const environment = secrets.map((secret): Pair => [`env.${secret}`, variable(secret)]);
  return withQuery(`mcp+npx://${name}`, [
    ...given.map((each): Pair => ["arg", encodeURIComponent(each)]),
    ...environment,
  ]);
}

interface Fault {
  readonly fault: string;
}

/** A key, and a value that is encoded already. */
type Pair = readonly [key: string, value: string];

function uriOfUrl(text: string, secret: string | undefined): string | Fault {
  let url: URL;
  try {
    url = new URL(text);
  } catch {
    return { fault: `"${text}" is not a URL: it begins with https:// or http://` };
  }
  const { protocol, username, host, pathname, searchParams } = url;
  if (protocol !== "https:" && protocol !== "http:") return { fault: "The URL has to begin with https:// or http://" };
  if (username !== "") return { fault: "Leave the password out of the URL: name a secret that has it" };
  // In a launcher URI, ${ begins a variable.
  const literal = (value: string): string => encodeURIComponent(value.replaceAll("${", "$${"));
  const query = Array.from(searchParams, ([key, value]): Pair => [`query.${encodeURIComponent(key)}`, literal(value)]);
  const token: Pair[] = secret === undefined ? [] : [["header.Authorization", `Bearer%20${variable(secret)}`]];
  return withQuery(`mcp+${protocol}//${host}${pathname}`, [...query, ...token]);
}

function variable(secret: string): string {
  return `\${${secret}}`;
}

function withQuery(uri: string, pairs: readonly Pair[]): string {
  return pairs.length === 0 ? uri : `${uri}?${pairs.map((pair) => pair.join("=")).join("&")}`;
}
