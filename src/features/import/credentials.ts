/** Finds what is secret in the settings of a server, by its name and by its form. */

/** Names of credentials, in snake case. */
const CREDENTIAL_NAME =
  /(?:^|_)(?:tokens?|secrets?|passwords?|passwd|pwd|pass|passphrase|api_?keys?|access_?keys?|key|pat|auth|authorization|credentials?|cookies?|jwt|bearer|dsn|conn(?:ection)?_?str(?:ing)?)$|(?:^|_)(?:token|secret|password|api_?key)_(?!(?:url|uri|endpoint|file|path|dir|name|id|type|limit|max|ttl|expiry|mode|count|budget|header)$)[a-z0-9_]+$/;
const COUNT_NAME =
  /(?:max|min|num|limit|use|enable|allow|require|has|is)_(?:[a-z]+_)*(?:tokens?|auth|keys?|secrets?|passwords?)$/;

/** Forms that issuers give to their tokens, and other values that are secret under any name. */
const TOKEN =
  /(?:\b(?:sk|pk|rk|sbp|gsk|hf|npm|dop_v1|lin_api|shpat|pplx|tvly|fc|ntn|nvapi|xai|ctx7sk|re|glpat|pypi|r8|phc|phx|figd|whsec|sntrys|sntryu|vcp|pat)[-_](?=[\w=.-]*\d)[\w=.-]{16,}|\bgh[a-z]_[A-Za-z0-9]{16,}|\bgithub_pat_\w{16,}|\bxox[a-z]-[A-Za-z0-9-]{10,}|\bxapp-[A-Za-z0-9-]{10,}|\bA(?:KI|SI)A[A-Z0-9]{16}\b|\bAIza[\w-]{30,}|\bya29\.[\w-]{10,}|\bSG\.[\w-]{16,}|\beyJ[\w-]{8,}\.[\w-]{4,}\.?[\w-]*|-----BEGIN [A-Z ]*PRIVATE KEY-----[^]*)/;
/** A word of letters and digits that no person chose. */
const RANDOM = /(?<![\w/.@-])(?=[\w-]*\d)(?=[\w-]*[A-Za-z])[A-Za-z0-9_-]{32,}(?![\w/.@-])/;

const PLACEHOLDER =
  /^(?:<.*>|\[[^"]*\]|\{[^"]*\}|\.{2,}|…|[x*]{2,}.*|.*(?:your|my|insert|replace|change|enter|paste|put)[-_ ]?.*(?:here|key|token|secret|password|id|me|this).*|.*\byour[-_ ].*|todo.*|changeme|redacted|example|placeholder)$/i;

export function snakeCase(name: string): string {
  return name
    .replace(/([a-z0-9])([A-Z])/g, "$1_$2")
    .replace(/[^A-Za-z0-9]+/g, "_")
    .replace(/^_+|_+$/g, "")
    .toLowerCase();
}

/** True if values under this name are credentials. */
export function isCredentialName(name: string): boolean {
  const snake = snakeCase(name);
  return CREDENTIAL_NAME.test(snake) && !COUNT_NAME.test(snake);
}

/** The credential in a text under a name, without a scheme such as `Bearer`; undefined without one. */
export function findCredential(name: string, text: string): string | undefined {
  const [, rest] = /^(?:Bearer|Basic|Token|ApiKey|Key)\s+(\S.*)$/i.exec(text) ?? [];
  if (rest !== undefined) return rest;
  if (isCredentialName(name) && !isHarmless(text)) return text;
  const address = /[a-z][a-z0-9+.-]*:\/\/\S+/i.exec(text)?.[0];
  if (address !== undefined && hasCredential(address)) return text;
  const [inner, another] = credentialsWithin(text);
  if (inner !== undefined) return another === undefined ? inner : text;
  return TOKEN.exec(text)?.[0] ?? RANDOM.exec(text)?.[0];
}

/** Named values in a header, a connection string, JSON or another assignment: at most the first two. */
function credentialsWithin(text: string): string[] {
  const found: string[] = [];
  for (const { 0: start, 1: name = "", index } of text.matchAll(/([A-Za-z][\w.-]*)["']?\s{0,4}[=:]\s{0,4}["']?/g)) {
    if (!isCredentialName(name)) continue;
    const rest = text.slice(index + start.length, index + start.length + VALUE_LENGTH_MAX);
    const [, value = ""] = /^(?:(?:Bearer|Basic|Token)\s)?([^\s"';,&{}]*)/i.exec(rest) ?? [];
    if (!isHarmless(value) && found.push(value) === 2) break;
  }
  return found;
}

const VALUE_LENGTH_MAX = 4_096;

/** True for a value to be replaced, as documentation contains it. */
export function isPlaceholder(value: string): boolean {
  return PLACEHOLDER.test(value);
}

/** True if a URL contains a password, or a query parameter that is a credential. */
export function hasCredential(text: string): boolean {
  if (/:\/\/[^/?#@\s]*:[^/?#@\s]+@/.test(text)) return true;
  const [, query = ""] = text.split("?", 2);
  return [...new URLSearchParams(query)].some(([name, value]) => isCredentialName(name) && !isHarmless(value));
}

/** True for text in the path of a URL that looks like a token. */
export function isTokenInPath(segment: string): boolean {
  return TOKEN.test(segment) || RANDOM.test(segment);
}

/** Settings whose names only look like credentials: switches, numbers, files. */
function isHarmless(value: string): boolean {
  return /^(?:|true|false|none|null|auto|oauth2?|\d{1,4}|(?:~|\.{1,2})?\/.*|[A-Za-z]:[\\/].*|.*\.(?:json|pem|key|crt|ya?ml|txt|env))$/i.test(
    value,
  );
}
