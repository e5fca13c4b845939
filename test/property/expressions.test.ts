// No regular expression of the program takes time that grows with the square of a text: names and texts of the upstream can be very long.

import { globSync, readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'

const literal =
  /(?<=[=(,:?!&|{}\s[])\/((?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n[*])(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n[])*)\/([dgimsuvy]*)(?=[\s,.);\]])/g
const length = 50_000
const mostMs = 300

function expressions(): ReadonlyMap<string, string> {
  const found = new Map<string, string>()
  for (const file of globSync('src/**/*.ts', { exclude: ['src/simulator/**'] }))
    for (const [text, source = '', flags = ''] of readFileSync(file, 'utf8').matchAll(literal)) {
      try {
        new RegExp(source, flags)
        found.set(text, file)
      } catch {
        // A division, or part of a text.
      }
    }
  return found
}

/** Texts of one thing repeated: quadratic expressions begin anew at each of them. */
function texts(source: string): readonly string[] {
  const own = source.replaceAll(/\\[a-zA-Z]/g, '').replaceAll(/[[\]()?*+|^$\\{}]/g, '')
  const pieces = new Set(['a', 'A', '0', ' ', '\n', '_', '/', '{', '[', '"', '\\', '.', '=', 'a ', ...own])
  const words = [...source.matchAll(/[A-Za-z]{3,}/g)].map(([word]) => word)
  return [...pieces].flatMap((piece) =>
    ['', ...words.slice(0, 2)].map((word) => `${word}${piece.repeat(length / piece.length)}\u0001`),
  )
}

describe('regular expressions', () => {
  it('look at each character a bounded number of times (P10)', () => {
    const slow: string[] = []
    const all = expressions()
    for (const [text, file] of all) {
      const [, source = '', flags = ''] = /^\/(.*)\/([a-z]*)$/s.exec(text) ?? []
      const expression = new RegExp(source, flags)
      for (const one of texts(source)) {
        // What this thread computed, and the quickest of three: others use this machine.
        const took = () => {
          const before = process.threadCpuUsage()
          one.replace(expression, '')
          return process.threadCpuUsage(before).user / 1_000
        }
        if (took() > mostMs && took() > mostMs && took() > mostMs) slow.push(`${file}: ${text}`)
      }
    }
    expect(all.size).toBeGreaterThan(200)
    expect(slow).toEqual([])
  }, 300_000)
})
