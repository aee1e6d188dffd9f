// The container image without a registry of images: a root file system of Debian packages (mmdebstrap), Node.js from npm,
// and Berth's tarball, as an OCI archive for `podman load` or `skopeo copy`. The settings are those of deploy/Containerfile.
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  cpSync,
  createReadStream,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { installTarball } from "./install-tarball.mjs";

const SUITE = "bookworm";
const PACKAGES = ["bubblewrap", "ca-certificates", "libstdc++6", "util-linux"];
/** What a process of the image gets. */
export const PROCESS = {
  user: { uid: 10_001, gid: 10_001 },
  env: [
    "PATH=/usr/local/bin:/usr/bin:/bin",
    "NODE_ENV=production",
    "BERTH_HOST=0.0.0.0",
    "BERTH_DATA=/data",
    "BERTH_GUESTS=sandboxed",
  ],
  args: ["/usr/local/bin/berth", "serve"],
  cwd: "/data",
};

/** `node`: the Node.js of the image. `folder`: for temporary files. Returns the archive of the root file system. */
export function buildRootFileSystem(tarball, node, folder) {
  const added = join(folder, "added");
  mkdirSync(join(added, "usr/local/bin"), { recursive: true });
  cpSync(node, join(added, "usr/local/bin/node"));
  installTarball(tarball, join(added, "opt/berth"), node);
  symlinkSync("/opt/berth/node_modules/.bin/berth", join(added, "usr/local/bin/berth"));
  const files = join(folder, "added.tar");
  execFileSync("tar", ["--owner=0", "--group=0", "--mode=u+rwX,go=rX", "-C", added, "-cf", files, "."]);
  rmSync(added, { recursive: true });
  const { uid, gid } = PROCESS.user;
  const user = `echo berth:x:${uid}:${gid}::/data:/usr/sbin/nologin >> "$1/etc/passwd"; echo berth:x:${gid}: >> "$1/etc/group"`;
  const root = join(folder, "root.tar");
  execFileSync(
    "mmdebstrap",
    [
      "--quiet",
      "--variant=essential",
      `--include=${PACKAGES.join(",")}`,
      "--dpkgopt=force-unsafe-io",
      "--dpkgopt=path-exclude=/usr/share/man/*",
      "--dpkgopt=path-exclude=/usr/share/locale/*",
      `--customize-hook=tar-in ${files} /`,
      `--customize-hook=${user}`,
      `--customize-hook=install -d -m 0700 -o ${uid} -g ${gid} "$1/data"`,
      SUITE,
      root,
    ],
    { stdio: ["ignore", "inherit", "inherit"] },
  );
  rmSync(files);
  return root;
}

/** Writes an OCI archive with the root file system as its only layer. */
export async function writeImage(root, version, file) {
  const folder = `${file}.d`;
  mkdirSync(join(folder, "blobs/sha256"), { recursive: true });
  execFileSync("gzip", ["-n", "-9", root]);
  const layer = `${root}.gz`;
  const diff = sha256(gunzipSync(readFileSync(layer)));
  const { user, env, args, cwd } = PROCESS;
  const layerBlob = { ...(await store(folder, layer)), mediaType: "application/vnd.oci.image.layer.v1.tar+gzip" };
  const config = {
    architecture: { x64: "amd64" }[process.arch] ?? process.arch,
    os: "linux",
    config: {
      User: `${user.uid}:${user.gid}`,
      Env: env,
      Entrypoint: args.slice(0, 1),
      Cmd: args.slice(1),
      WorkingDir: cwd,
      Volumes: { "/data": {} },
      ExposedPorts: { "7420/tcp": {} },
    },
    rootfs: { type: "layers", diff_ids: [`sha256:${diff}`] },
  };
  const configBlob = { ...(await storeJson(folder, config)), mediaType: "application/vnd.oci.image.config.v1+json" };
  const mediaType = "application/vnd.oci.image.manifest.v1+json";
  const manifest = await storeJson(folder, { schemaVersion: 2, mediaType, config: configBlob, layers: [layerBlob] });
  const annotations = { "org.opencontainers.image.ref.name": `berth:${version}` };
  writeFileSync(
    join(folder, "index.json"),
    JSON.stringify({ schemaVersion: 2, manifests: [{ ...manifest, mediaType, annotations }] }),
  );
  writeFileSync(join(folder, "oci-layout"), '{"imageLayoutVersion":"1.0.0"}');
  execFileSync("tar", ["-C", folder, "-cf", file, "oci-layout", "index.json", "blobs"]);
  rmSync(folder, { recursive: true });
}

async function storeJson(folder, value) {
  const file = join(folder, "value.json");
  writeFileSync(file, JSON.stringify(value));
  return store(folder, file);
}

/** Moves a file to the blobs. */
async function store(folder, file) {
  const hash = createHash("sha256");
  let size = 0;
  for await (const chunk of createReadStream(file)) {
    hash.update(chunk);
    size += chunk.length;
  }
  const digest = hash.digest("hex");
  renameSync(file, join(folder, "blobs/sha256", digest));
  return { digest: `sha256:${digest}`, size };
}

function sha256(bytes) {
  return createHash("sha256").update(bytes).digest("hex");
}
