/**
 * The filter of system calls for all confined programs (`seccomp(2)`), in the kernel's format: an array of `struct
 * sock_filter`. Namespaces and limits leave a program many parts of the kernel that it does not need, and where most
 * sandbox escapes began. A refused call fails as if the kernel did not have it or did not permit it, so that programs
 * do without it; a program that makes calls through another ABI, which would bypass all of this, is killed.
 *
 * Data written to a socket is in kernel memory that counts to no process, so few programs have sockets, and their
 * buffers have the system's default size.
 */
export function seccompFilter(architecture: string, sockets: ConfinedSockets): Buffer | undefined {
  const isLocal = sockets === "local" || sockets === "local and tcp";
  const usesTcp = sockets === "tcp" || sockets === "local and tcp";
  const abi = architectures[architecture];
  if (!abi) return undefined;
  const { audit, column, foreignFrom } = abi;
  const numberFor = (name: keyof typeof numbers): number => numbers[name][column];

  return encode([
    load(ARCHITECTURE),
    ...allowOnly(audit, KILL),
    load(NUMBER),
    ...(foreignFrom === undefined ? [] : [instruction(JUMP_AT_LEAST, foreignFrom, 0, 1), returnWith(KILL)]),
    instruction(JUMP_ABOVE, LAST_KNOWN, 0, 1),
    returnWith(refuse(ENOSYS)),
    ...refused.flatMap((name) => {
      const number = (refusedNumbers[name] as Numbers)[column];
      return number === undefined ? [] : when(number, [returnWith(refuse(EPERM))]);
    }),
    // Its flags are in memory, which no filter can read; the C library then falls back to `clone`.
    ...when(numberFor("clone3"), [returnWith(refuse(ENOSYS))]),
    ...when(numberFor("clone"), refuseFlags(NAMESPACES)),
    ...when(numberFor("unshare"), refuseFlags(NAMESPACES | NEW_TIME)),
    ...when(numberFor("personality"), [
      load(argument(0)),
      ...when(QUERY_PERSONALITY, [returnWith(ALLOW)]),
      ...when(0, [returnWith(ALLOW)]),
      returnWith(refuse(EPERM)),
    ]),
    ...when(numberFor("ioctl"), [
      load(argument(1)),
      ...terminalInputs.flatMap((request) => when(request, [returnWith(refuse(EPERM))])),
      returnWith(ALLOW),
    ]),
    // Pages of a shared anonymous mapping remain allocated when all but one of its pages are unmapped; huge pages count
    // nowhere.
    ...when(numberFor("mmap"), [
      load(argument(3)),
      instruction(JUMP_ANY_BIT, MAP_HUGETLB, 0, 1),
      returnWith(refuse(EPERM)),
      instruction(AND, MAP_SHARED_ANONYMOUS),
      ...when(MAP_SHARED_ANONYMOUS, [returnWith(refuse(EPERM))]),
      returnWith(ALLOW),
    ]),
    ...when(numberFor("prctl"), [
      load(argument(0)),
      ...when(PR_SET_SECCOMP, [returnWith(refuse(EPERM))]),
      instruction(JUMP_ABOVE, LAST_PRCTL, 0, 1),
      returnWith(refuse(EINVAL)),
      returnWith(ALLOW),
    ]),
    // Open file description locks name no process, so they could not be counted (`countRecordLocks`).
    ...when(numberFor("fcntl"), [
      load(argument(1)),
      ...OFD_LOCKS.flatMap((command) => when(command, [returnWith(refuse(EINVAL))])),
      returnWith(ALLOW),
    ]),
    // The kernel does not count access control lists, up to 64 KiB for each file in memory.
    ...attributeSetters.flatMap((name) => when(numberFor(name), [returnWith(refuse(EOPNOTSUPP))])),
    ...when(numberFor("socketpair"), [
      ...(isLocal ? [load(argument(0)), ...when(AF_UNIX, [returnWith(ALLOW)])] : []),
      returnWith(refuse(EAFNOSUPPORT)),
    ]),
    ...when(numberFor("socket"), [
      load(argument(0)),
      ...(isLocal ? when(AF_UNIX, [returnWith(ALLOW)]) : []),
      ...(sockets === "out" ? when(AF_UNIX, streamsOnly([returnWith(ALLOW)])) : []),
      ...(usesTcp
        ? [AF_INET, AF_INET6].flatMap((family) => when(family, streamsOnly(onlyProtocols([0, IPPROTO_TCP]))))
        : []),
      // Lists network interfaces, of which there are none.
      ...when(AF_NETLINK, onlyProtocols([NETLINK_ROUTE])),
      returnWith(refuse(EAFNOSUPPORT)),
    ]),
    ...(isLocal ? [] : when(numberFor("listen"), [returnWith(refuse(EPERM))])),
    ...when(numberFor("setsockopt"), [
      load(argument(1)),
      // Upper layer protocols in the kernel.
      ...when(IPPROTO_TCP, [load(argument(2)), ...when(TCP_ULP, [returnWith(refuse(EPERM))]), returnWith(ALLOW)]),
      instruction(JUMP_EQUAL, SOL_SOCKET, 1, 0),
      returnWith(ALLOW),
      load(argument(2)),
      ...bufferLengths.flatMap((option) => when(option, [returnWith(refuse(IGNORED))])),
      returnWith(ALLOW),
    ]),
    returnWith(ALLOW),
  ]);
}

/**
 * `local`: connects to the program's own processes, and to listeners in the folders that it sees. `out`: connects to
 * such listeners only, so that nothing is written without another process reading it. `none`: no connections. `tcp`:
 * only TCP connections, in a network of its own; sockets in folders are unreachable.
 */
export type ConfinedSockets = "local" | "out" | "none" | "tcp" | "local and tcp";

/** `[x86_64, aarch64]`; undefined if an architecture has no such call. */
type Numbers = readonly [number | undefined, number | undefined];

/** From 424 on, numbers are the same on all architectures. Calls after the last one are refused until reviewed. */
const LAST_KNOWN = 469;

const refusedNumbers = {
  // Files other than the mounted ones, and other mounts.
  mount: [165, 40],
  umount2: [166, 39],
  pivot_root: [155, 41],
  chroot: [161, 51],
  open_tree: [428, 428],
  move_mount: [429, 429],
  fsopen: [430, 430],
  fsconfig: [431, 431],
  fsmount: [432, 432],
  fspick: [433, 433],
  mount_setattr: [442, 442],
  open_tree_attr: [467, 467],
  name_to_handle_at: [303, 264],
  open_by_handle_at: [304, 265],
  fanotify_init: [300, 262],
  fanotify_mark: [301, 263],
  quotactl: [179, 60],
  quotactl_fd: [443, 443],
  swapon: [167, 224],
  swapoff: [168, 225],
  setns: [308, 268],
  // Large parts of the kernel with a bad security record.
  io_uring_setup: [425, 425],
  io_uring_enter: [426, 426],
  io_uring_register: [427, 427],
  bpf: [321, 280],
  userfaultfd: [323, 282],
  perf_event_open: [298, 241],
  add_key: [248, 217],
  request_key: [249, 218],
  keyctl: [250, 219],
  vmsplice: [278, 75],
  remap_file_pages: [216, 234],
  lookup_dcookie: [212, 18],
  modify_ldt: [154, undefined],
  // Access to the internals of other processes.
  ptrace: [101, 117],
  process_vm_readv: [310, 270],
  process_vm_writev: [311, 271],
  pidfd_getfd: [438, 438],
  kcmp: [312, 272],
  // Memory that counts to no process, or is moved between them.
  memfd_create: [319, 279],
  memfd_secret: [447, 447],
  landlock_create_ruleset: [444, 444],
  landlock_add_rule: [445, 445],
  landlock_restrict_self: [446, 446],
  seccomp: [317, 277],
  shmget: [29, 194],
  msgget: [68, 186],
  semget: [64, 190],
  migrate_pages: [256, 238],
  move_pages: [279, 239],
  mbind: [237, 235],
  set_mempolicy: [238, 237],
  set_mempolicy_home_node: [450, 450],
  // The machine itself.
  kexec_load: [246, 104],
  kexec_file_load: [320, 294],
  init_module: [175, 105],
  finit_module: [313, 273],
  delete_module: [176, 106],
  reboot: [169, 142],
  acct: [163, 89],
  syslog: [103, 116],
  settimeofday: [164, 170],
  clock_settime: [227, 112],
  clock_adjtime: [305, 266],
  sethostname: [170, 161],
  setdomainname: [171, 162],
  vhangup: [153, 58],
  iopl: [172, undefined],
  ioperm: [173, undefined],
  // Obsolete calls.
  create_module: [174, undefined],
  get_kernel_syms: [177, undefined],
  query_module: [178, undefined],
  nfsservctl: [180, 42],
  uselib: [134, undefined],
  ustat: [136, undefined],
  sysfs: [139, undefined],
  _sysctl: [156, undefined],
} as const satisfies Readonly<Record<string, Numbers>>;

const refused = Object.keys(refusedNumbers) as (keyof typeof refusedNumbers)[];

/** Calls that are refused only for some arguments. */
const numbers = {
  clone: [56, 220],
  clone3: [435, 435],
  unshare: [272, 97],
  personality: [135, 92],
  ioctl: [16, 29],
  socket: [41, 198],
  socketpair: [53, 199],
  setsockopt: [54, 208],
  listen: [50, 201],
  mmap: [9, 222],
  prctl: [157, 167],
  fcntl: [72, 25],
  setxattr: [188, 5],
  lsetxattr: [189, 6],
  fsetxattr: [190, 7],
  setxattrat: [463, 463],
} as const satisfies Readonly<Record<string, Numbers>>;

const attributeSetters = ["setxattr", "lsetxattr", "fsetxattr", "setxattrat"] as const;

interface Architecture {
  /** `AUDIT_ARCH_…` of `linux/audit.h`. */
  readonly audit: number;
  readonly column: 0 | 1;
  /** Numbers from here on belong to another ABI of the same architecture (x32). */
  readonly foreignFrom?: number;
}

const architectures: Readonly<Record<string, Architecture>> = {
  x64: { audit: 0xc000_003e, column: 0, foreignFrom: 0x4000_0000 },
  arm64: { audit: 0xc000_00b7, column: 1 },
};

/** Cgroups, host names, IPC, users, processes, networks and mounts: `CLONE_NEW…` of `linux/sched.h`. */
const NAMESPACES = 0x7e02_0000;
const NEW_TIME = 0x80;
/** The argument that only queries the personality of a process. */
const QUERY_PERSONALITY = 0xffff_ffff;
const MAP_HUGETLB = 0x4_0000;
/** `MAP_SHARED | MAP_ANONYMOUS` */
const MAP_SHARED_ANONYMOUS = 0x21;
const PR_SET_SECCOMP = 22;
/** `PR_GET_MDWE`. A later option, `PR_FUTEX_HASH`, allocates as much kernel memory as requested. */
const LAST_PRCTL = 66;
/** `F_OFD_SETLK`, `F_OFD_SETLKW` */
const OFD_LOCKS = [37, 38];
/** `TIOCSTI`, `TIOCLINUX`: inject text as if it were typed at the terminal. */
const terminalInputs = [0x5412, 0x541c];
const [AF_UNIX, AF_INET, AF_INET6, AF_NETLINK] = [1, 2, 10, 16] as const;
const IPPROTO_TCP = 6;
const TCP_ULP = 31;
const NETLINK_ROUTE = 0;
const SOCK_STREAM = 1;
/** `SOCK_TYPE_MASK` */
const SOCKET_KIND = 0xf;
const SOL_SOCKET = 1;
/** `SO_SNDBUF`, `SO_RCVBUF`, `SO_SNDBUFFORCE`, `SO_RCVBUFFORCE`: requests that the kernel may also ignore. */
const bufferLengths = [7, 8, 32, 33];

const [EPERM, EINVAL, ENOSYS, EPROTONOSUPPORT, EOPNOTSUPP, EAFNOSUPPORT] = [1, 22, 38, 93, 95, 97] as const;
/** Reported as success. */
const IGNORED = 0;
const KILL = 0x8000_0000;
const ALLOW = 0x7fff_0000;
const refuse = (error: number): number => 0x0005_0000 + error;

/** The offsets in `struct seccomp_data`. */
const [NUMBER, ARCHITECTURE] = [0, 4] as const;
/** The offset of an argument's lower half: for the arguments checked here, the kernel ignores the rest. */
const argument = (index: number): number => 16 + 8 * index;

/** `code`, `jt`, `jf`, `k` of `struct sock_filter`: how far to jump if the condition holds, and if not. */
interface Instruction {
  readonly code: number;
  readonly jumpTrue: number;
  readonly jumpFalse: number;
  readonly value: number;
}

const AND = 0x54;
const [LOAD, JUMP_EQUAL, JUMP_ABOVE, JUMP_AT_LEAST, JUMP_ANY_BIT, RETURN] = [0x20, 0x15, 0x25, 0x35, 0x45, 0x06];

function instruction(code: number, value: number, jumpTrue = 0, jumpFalse = 0): Instruction {
  return { code, jumpTrue: jumpTrue, jumpFalse: jumpFalse, value };
}

function load(offset: number): Instruction {
  return instruction(LOAD, offset);
}

function returnWith(value: number): Instruction {
  return instruction(RETURN, value);
}

/** `block` has to end with a return. */
function when(value: number, block: readonly Instruction[]): Instruction[] {
  return [instruction(JUMP_EQUAL, value, 0, block.length), ...block];
}

function allowOnly(value: number, verdict: number): Instruction[] {
  return [instruction(JUMP_EQUAL, value, 1, 0), returnWith(verdict)];
}

function refuseFlags(flags: number): Instruction[] {
  return [load(argument(0)), instruction(JUMP_ANY_BIT, flags, 0, 1), returnWith(refuse(EPERM)), returnWith(ALLOW)];
}

/** The argument also contains flags. */
function streamsOnly(block: readonly Instruction[]): Instruction[] {
  return [
    load(argument(1)),
    instruction(AND, SOCKET_KIND),
    ...when(SOCK_STREAM, block),
    returnWith(refuse(EPROTONOSUPPORT)),
  ];
}

function onlyProtocols(protocols: readonly number[]): Instruction[] {
  const allowed = protocols.flatMap((protocol) => when(protocol, [returnWith(ALLOW)]));
  return [load(argument(2)), ...allowed, returnWith(refuse(EPROTONOSUPPORT))];
}

function encode(instructions: readonly Instruction[]): Buffer {
  const bytes = Buffer.alloc(instructions.length * 8);
  for (const [index, { code, jumpTrue: ifSo, jumpFalse: ifNot, value }] of instructions.entries()) {
    bytes.writeUInt16LE(code, index * 8);
    bytes.writeUInt8(ifSo, index * 8 + 2);
    bytes.writeUInt8(ifNot, index * 8 + 3);
    bytes.writeUInt32LE(value, index * 8 + 4);
  }
  return bytes;
}
