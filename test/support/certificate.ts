import { join } from "node:path";
import { packageRoot } from "../../src/config.ts";

const folder = join(packageRoot, "test", "fixtures", "tls");

/** For the address 127.0.0.1 and the name db.test; it is its own authority. */
export const certificateFile = join(folder, "certificate.pem");
export const keyFile = join(folder, "key.pem");
