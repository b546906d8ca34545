import Foundation
import Testing

/// What must not stand in the sources although it compiles.
struct SourceTests {
    /// A mutex, or another generic holder, whose whole value is a function wraps the function once more at each reading:
    /// `LateBinding` is there for it. Behind a field of a struct a function stays as it is.
    @Test func noGenericHolderIsOfAFunctionAlone() throws {
        let holder = /(Mutex|Atomic|OSAllocatedUnfairLock|ManagedBuffer|TaskLocal)<[^\n]*->/
        let sources = Repository.root.appendingPathComponent("Sources")
        let names = try FileManager.default.subpathsOfDirectory(atPath: sources.path).filter { $0.hasSuffix(".swift") }
        #expect(names.count > 100)
        for name in names {
            let text = try String(contentsOf: sources.appendingPathComponent(name), encoding: .utf8)
            for line in text.split(separator: "\n") where line.contains(holder) {
                Issue.record("Sources/\(name): \(line.trimmingCharacters(in: .whitespaces))")
            }
        }
    }
}
