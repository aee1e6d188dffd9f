/**
 * Stands in for the URI library that the form library brings along (scripts/bundle-browser.mjs puts it there): browsers
 * resolve references themselves.
 */
export default {
  equal: (one: string, other: string): boolean => one === other,
  resolve: (base: string, reference: string): string => new URL(reference, base).href,
};
