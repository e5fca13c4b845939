// The packages of others in the bundle: their licences, and the bill of materials (SBOM) in the form of CycloneDX.

import { execFileSync } from 'node:child_process'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Metafile } from 'esbuild'

/** Whoever passes the program on has to pass on the text of the licence, and nothing else. */
const permissive = ['MIT', 'ISC', 'BSD-2-Clause', 'BSD-3-Clause', 'Apache-2.0', '0BSD', 'BlueOak-1.0.0']

type Package = {
  readonly folder: string
  readonly name: string
  readonly version: string
  readonly license?: string
}
type Component = { readonly 'bom-ref': string }

/** By name. Throws when a package is in the bundle that may not be. */
export function packagesIn(checkout: string, inputs: Metafile['inputs']): readonly Package[] {
  const folders = Object.keys(inputs).flatMap(
    (file) => /.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(file)?.[0] ?? [],
  )
  const packages = [...new Set(folders)].map((name): Package => {
    const folder = join(checkout, name)
    return { ...JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')), folder }
  })
  for (const { name, license } of packages)
    if (!permissive.includes(license ?? ''))
      throw new Error(
        `${name} has the licence ${license ?? 'none'}; only ${permissive.join(', ')} may be bundled`,
      )
  return packages.toSorted((a, b) => (a.name < b.name ? -1 : 1))
}

export function licencesOf(packages: readonly Package[]): string {
  const texts = packages.map(({ folder, name, version, license }) => {
    const files = globSync(['{LICEN[CS]E,licen[cs]e,NOTICE}*'], { cwd: folder }).toSorted()
    const text = files.map((file) => readFileSync(join(folder, file), 'utf8').trim()).join('\n\n')
    return `${name} ${version} (${license})\n\n${text}\n`
  })
  return texts.join(`\n${'-'.repeat(80)}\n\n`)
}

/**
 * What `npm sbom` says of these packages, the same for each build of the same sources. With `--omit=dev` it would leave out
 * packages that are also used by development tools, so all are asked for and those that are not in the bundle go.
 */
export function softwareBill(checkout: string, packages: readonly Package[]): string {
  const words = ['sbom', '--package-lock-only', '--sbom-format=cyclonedx', '--sbom-type=application']
  const { serialNumber: _, ...bill } = JSON.parse(
    execFileSync('npm', words, { cwd: checkout, encoding: 'utf8', maxBuffer: 2 ** 26 }),
  )
  const own: string = bill.metadata.component['bom-ref']
  const bundled = new Set([own, ...packages.map(({ name, version }) => `${name}@${version}`)])
  const components: readonly Component[] = bill.components.filter((one: Component) =>
    bundled.has(one['bom-ref']),
  )
  const described = new Set([own, ...components.map((one) => one['bom-ref'])])
  const missing = [...bundled].filter((one) => !described.has(one))
  if (missing.length > 0) throw new Error(`npm sbom does not know ${missing.join(', ')}: run npm ci`)
  const { timestamp: __, ...metadata } = bill.metadata
  const dependencies = bill.dependencies
    .filter(({ ref }: { ref: string }) => bundled.has(ref))
    .map(({ ref, dependsOn }: { ref: string; dependsOn: string[] }) => ({
      ref,
      dependsOn: dependsOn.filter((one) => bundled.has(one)),
    }))
  metadata.component.name = 'tidemark'
  return `${JSON.stringify({ ...bill, metadata, components, dependencies }, null, 2)}\n`
}
