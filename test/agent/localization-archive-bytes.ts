/** Archives byte by byte, also such as no tool would make. */
import { crc32, deflateRawSync } from "node:zlib";

export type TarEntry = {
  readonly name: string;
  readonly content?: string | Uint8Array;
  /** `0` file, `1` hard link, `2` symbolic link, `3` and `4` devices, `5` directory, `6` FIFO. */
  readonly type?: string;
  readonly target?: string;
  readonly mode?: number;
  /** What the header says instead of the content's length. */
  readonly size?: number;
};

const BLOCK = 512;

export function createTar(entries: readonly TarEntry[]): Buffer {
  return Buffer.concat([...entries.flatMap(tarBlocks), Buffer.alloc(2 * BLOCK)]);
}

function tarBlocks(entry: TarEntry): Buffer[] {
  const content = Buffer.from(entry.content ?? "");
  const padding = Buffer.alloc((BLOCK - (content.length % BLOCK)) % BLOCK);
  const needsPax = [entry.name, entry.target ?? ""].some(
    (text) => Buffer.byteLength(text) > 99 || text.includes("\0"),
  );
  const pax = needsPax ? paxHeader(entry) : [];
  return [...pax, tarHeader(entry, content.length), content, padding];
}

function paxHeader({ name, target }: TarEntry): Buffer[] {
  const record = (key: string, value: string) => {
    const rest = ` ${key}=${value}\n`;
    let length = Buffer.byteLength(rest);
    while (String(length).length + Buffer.byteLength(rest) !== length) {
      length = String(length).length + Buffer.byteLength(rest);
    }
    return `${length}${rest}`;
  };
  const content = record("path", name) + (target === undefined ? "" : record("linkpath", target));
  return tarBlocks({ name: "pax", type: "x", content });
}

function tarHeader(
  { name, type = "0", target = "", mode, size }: TarEntry,
  length: number,
): Buffer {
  const header = Buffer.alloc(BLOCK);
  const octal = (value: number, width: number) => `${value.toString(8).padStart(width, "0")}\0`;
  header.write(name.slice(0, 99), 0);
  header.write(octal(mode ?? 0o644, 7), 100);
  header.write(octal(0, 7), 108);
  header.write(octal(0, 7), 116);
  header.write(octal(size ?? length, 11), 124);
  header.write(octal(0, 11), 136);
  header.write("        ", 148);
  header.write(type, 156);
  header.write(target.slice(0, 99), 157);
  header.write("ustar\u000000", 257);
  const sum = header.reduce((total, byte) => total + byte, 0);
  header.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148);
  return header;
}

export type ZipEntry = {
  readonly name: string;
  readonly content?: string | Uint8Array;
  /** Unix mode with its type bits; left out: made by DOS, which has none. */
  readonly mode?: number;
  readonly encrypted?: boolean;
  readonly method?: number;
  /** What the headers say instead of the truth. */
  readonly size?: number;
  readonly checksum?: number;
};

export function createZip(entries: readonly ZipEntry[]): Buffer {
  const locals: Buffer[] = [];
  const central: Buffer[] = [];
  let offset = 0;
  for (const entry of entries) {
    const { local, directory } = zipRecords(entry, offset);
    locals.push(local);
    central.push(directory);
    offset += local.length;
  }
  const size = central.reduce((total, record) => total + record.length, 0);
  const end = Buffer.alloc(22);
  end.writeUInt32LE(0x06054b50, 0);
  end.writeUInt16LE(entries.length, 8);
  end.writeUInt16LE(entries.length, 10);
  end.writeUInt32LE(size, 12);
  end.writeUInt32LE(offset, 16);
  return Buffer.concat([...locals, ...central, end]);
}

function zipRecords(entry: ZipEntry, offset: number): { local: Buffer; directory: Buffer } {
  const content = Buffer.from(entry.content ?? "");
  const packed = deflateRawSync(content);
  const name = Buffer.from(entry.name);
  const shared = Buffer.alloc(26);
  shared.writeUInt16LE(20, 0);
  shared.writeUInt16LE(entry.encrypted ? 0x801 : 0x800, 2);
  shared.writeUInt16LE(entry.method ?? 8, 4);
  shared.writeUInt32LE(entry.checksum ?? crc32(content), 10);
  shared.writeUInt32LE(packed.length, 14);
  shared.writeUInt32LE(entry.size ?? content.length, 18);
  shared.writeUInt16LE(name.length, 22);
  const localMagic = Buffer.from([0x50, 0x4b, 3, 4]);
  const centralStart = Buffer.from([0x50, 0x4b, 1, 2, 20, entry.mode === undefined ? 0 : 3]);
  const rest = Buffer.alloc(14);
  rest.writeUInt32LE(((entry.mode ?? 0) << 16) >>> 0, 6);
  rest.writeUInt32LE(offset, 10);
  return {
    local: Buffer.concat([localMagic, shared, name, packed]),
    directory: Buffer.concat([centralStart, shared, rest, name]),
  };
}
