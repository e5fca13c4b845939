// Compares what a page looks like with the pictures of the manual. Fonts, numbers and times differ from machine to machine and from run
// to run, so pictures are compared by the mean colours of coarse fields: where cards, charts, buttons and text stand, not what they say.

import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { Page } from 'playwright-core'

const file = (name: string) => fileURLToPath(new URL(`../../docs/${name}.png`, import.meta.url))

export const storedPicture = (name: string): Buffer => readFileSync(file(name))

/** How many fields a picture is wide. */
const fieldsAcross = 32
/** Text that wraps elsewhere moves what is below it by a line or two. */
const shift = 1

/**
 * How unlike each picture is to the first, from 0 to 255: the mean distance of the colours of their fields, each at its best within the
 * shift. Decoded by the browser that took one of them. What lies within `covered` counts for nothing.
 */
export async function distancesFrom(
  page: Page,
  taken: Buffer,
  others: readonly Buffer[],
  covered: Box | null = null,
): Promise<readonly number[]> {
  const fields = (png: Buffer) =>
    page.evaluate<Fields>(
      `(async (data, across, covered) => {
        const image = new Image()
        image.src = 'data:image/png;base64,' + data
        await image.decode()
        const side = image.width / across
        const rows = Math.floor(image.height / side)
        const canvas = new OffscreenCanvas(image.width, image.height).getContext('2d', { willReadFrequently: true })
        canvas.drawImage(image, 0, 0)
        if (covered) canvas.clearRect(covered.x, covered.y, covered.width, covered.height)
        const colours = []
        for (let row = 0; row < rows; row++)
          for (let column = 0; column < across; column++) {
            const { data: pixels } = canvas.getImageData(column * side, row * side, side, side)
            const sums = [0, 0, 0]
            for (let at = 0; at < pixels.length; at++) if (at % 4 < 3) sums[at % 4] += pixels[at]
            for (const sum of sums) colours.push(sum / (pixels.length / 4))
          }
        return { rows, colours }
      })('${png.toString('base64')}', ${fieldsAcross}, ${JSON.stringify(covered)})`,
    )
  const own = await fields(taken)
  const distances: number[] = []
  for (const other of others) distances.push(distance(own, await fields(other)))
  return distances
}

export type Box = { readonly x: number; readonly y: number; readonly width: number; readonly height: number }
type Fields = { readonly rows: number; readonly colours: readonly number[] }

function distance(a: Fields, b: Fields): number {
  const rows = Math.min(a.rows, b.rows)
  const between = (row: number, other: number, column: number) =>
    [0, 1, 2].reduce((sum, channel) => {
      const at = (place: number) => (place * fieldsAcross + column) * 3 + channel
      return sum + Math.abs((a.colours[at(row)] ?? 0) - (b.colours[at(other)] ?? 0)) / 3
    }, 0)
  let sum = 0
  for (let row = 0; row < rows; row++)
    for (let column = 0; column < fieldsAcross; column++) {
      const near = Array.from({ length: 2 * shift + 1 }, (_, index) => row + index - shift)
      sum += Math.min(...near.filter((one) => one >= 0 && one < rows).map((one) => between(row, one, column)))
    }
  return sum / (rows * fieldsAcross)
}
