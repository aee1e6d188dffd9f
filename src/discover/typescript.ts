import { createRequire } from "node:module";

/**
 * The compiler, as `#typescript` (package.json) names it. It is required, not imported: to import a file of 9 MB of
 * CommonJS, Node reads it twice more, to learn what kind of module it is and what it exports. Every start of the
 * compiler would be half a second slower.
 */
export default createRequire(import.meta.url)("typescript") as unknown;
