// Makes pictures of pages small: at most 256 colours, and no alpha. Reads what Chromium writes, which is 8 bits a channel and not interlaced.

import { crc32, deflateSync, inflateSync } from 'node:zlib'

const signature = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a])

type Pixels = { readonly width: number; readonly height: number; readonly colours: Uint32Array }

export function inFewColours(png: Buffer): Buffer {
  const { width, height, colours } = decode(png)
  const { palette, indexOf } = paletteFor(colours)
  const lines = Buffer.alloc((width + 1) * height)
  for (let y = 0; y < height; y++)
    for (let x = 0; x < width; x++) lines[y * (width + 1) + x + 1] = indexOf(colours[y * width + x] ?? 0)
  const head = Buffer.alloc(13)
  head.writeUInt32BE(width, 0)
  head.writeUInt32BE(height, 4)
  head.set([8, 3, 0, 0, 0], 8)
  const parts = [chunk('IHDR', head), chunk('PLTE', palette), chunk('IDAT', deflateSync(lines, { level: 9 }))]
  return Buffer.concat([signature, ...parts, chunk('IEND', Buffer.alloc(0))])
}

function chunk(type: string, data: Buffer): Buffer {
  const named = Buffer.concat([Buffer.from(type, 'latin1'), data])
  const frame = Buffer.alloc(8)
  frame.writeUInt32BE(data.length, 0)
  frame.writeUInt32BE(crc32(named), 4)
  return Buffer.concat([frame.subarray(0, 4), named, frame.subarray(4)])
}

function decode(png: Buffer): Pixels {
  const data: Buffer[] = []
  let [width, height, channels] = [0, 0, 0]
  for (let at = signature.length; at < png.length; ) {
    const length = png.readUInt32BE(at)
    const type = png.toString('latin1', at + 4, at + 8)
    const body = png.subarray(at + 8, at + 8 + length)
    if (type === 'IHDR') {
      width = body.readUInt32BE(0)
      height = body.readUInt32BE(4)
      channels = body[9] === 6 ? 4 : 3
    } else if (type === 'IDAT') data.push(body)
    at += length + 12
  }
  const bytes = unfiltered(inflateSync(Buffer.concat(data)), width * channels, height, channels)
  const colours = new Uint32Array(width * height)
  for (let pixel = 0; pixel < colours.length; pixel++) {
    const at = pixel * channels
    colours[pixel] = ((bytes[at] ?? 0) << 16) | ((bytes[at + 1] ?? 0) << 8) | (bytes[at + 2] ?? 0)
  }
  return { width, height, colours }
}

/** Each line says how its bytes were foretold from those beside and above them. */
function unfiltered(raw: Buffer, lineBytes: number, height: number, step: number): Uint8Array {
  const out = new Uint8Array(lineBytes * height)
  for (let y = 0; y < height; y++) {
    const filter = raw[y * (lineBytes + 1)] ?? 0
    for (let x = 0; x < lineBytes; x++) {
      const at = y * lineBytes + x
      const left = x >= step ? (out[at - step] ?? 0) : 0
      const above = y > 0 ? (out[at - lineBytes] ?? 0) : 0
      const corner = x >= step && y > 0 ? (out[at - lineBytes - step] ?? 0) : 0
      out[at] = (raw[y * (lineBytes + 1) + 1 + x] ?? 0) + foretold(filter, left, above, corner)
    }
  }
  return out
}

function foretold(filter: number, left: number, above: number, corner: number): number {
  if (filter === 1) return left
  if (filter === 2) return above
  if (filter === 3) return (left + above) >> 1
  if (filter !== 4) return 0
  const [toLeft, toAbove, toCorner] = [above - corner, left - corner, left + above - 2 * corner].map(Math.abs)
  if ((toLeft ?? 0) <= (toAbove ?? 0) && (toLeft ?? 0) <= (toCorner ?? 0)) return left
  return (toAbove ?? 0) <= (toCorner ?? 0) ? above : corner
}

const mostColours = 256
/** That are there most often, and stay as they are: grounds, frames, text. */
const exactColours = 48

/** Colours that are near to each other become the one of them that is there most often, and no more of them than have to. */
function paletteFor(colours: Uint32Array): { palette: Buffer; indexOf(colour: number): number } {
  const counts = new Map<number, number>()
  for (const colour of colours) counts.set(colour, (counts.get(colour) ?? 0) + 1)
  const oftenFirst = [...counts].sort(([, one], [, other]) => other - one).map(([colour]) => colour)
  const exact = new Set(oftenFirst.slice(0, exactColours))
  for (let bits = 0; ; bits++) {
    const mask = (0xff >> bits) << bits
    const near = (colour: number) =>
      exact.has(colour) ? colour : 0x1000000 | (colour & ((mask << 16) | (mask << 8) | mask))
    const chosen = new Map<number, number>()
    for (const colour of oftenFirst) if (!chosen.has(near(colour))) chosen.set(near(colour), colour)
    if (chosen.size > mostColours) continue
    const places = new Map([...chosen.keys()].map((key, index) => [key, index]))
    const palette = Buffer.from(
      [...chosen.values()].flatMap((one) => [one >> 16, (one >> 8) & 255, one & 255]),
    )
    return { palette, indexOf: (colour) => places.get(near(colour)) ?? 0 }
  }
}
