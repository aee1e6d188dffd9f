import slugify from "slugify";

/** Text as part of an address. */
export function slug(): string {
  return slugify("Some String: ♥ Grüße", { lower: true, strict: true });
}
