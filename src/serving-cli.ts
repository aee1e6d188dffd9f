/** cli.ts, bundled for the commands that serve (scripts/bundle-commands.mjs). */
import "./cli.ts";
