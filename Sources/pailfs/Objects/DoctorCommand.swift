import ArgumentParser
import Basics
import ObjectStorage
import Providers
import Settings
import Synchronization

/// Checks everything a mount needs, on this machine and at the store, and prints the result of each check.
struct DoctorCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "doctor", abstract: "Checks what a mount needs, here and at the store.",
        discussion: """
            Prints one line per check: ok; FAILED, with the reason and the remedy; differs, where the server departs from its \
            protocol and a mount works all the same; unused, for a setting of another tool that has no effect; or skipped. \
            Without --read-only or -o ro it makes objects below .pailfs-doctor-.../ of the URL and deletes them. The exit status is not 0 if a check failed.
            """)

    @Argument(help: "scheme://bucket, scheme://bucket/prefix, or a path in a mount") var place: String
    @OptionGroup var location: StoreOptions
    @Flag(help: "Make no objects.") var readOnly = false
    @Flag(help: "Print each check as a JSON object on a line of its own.") var json = false

    mutating func run() throws {
        let request = try request().hastened()
        let report = DoctorReport(isJSON: json)
        MachineCheckup(request).run(report)
        for setting in request.unreadSettings { report.note(.unused, setting.name, "\(setting)") }
        let session = try ObjectStoreSession(request, checked: false)
        let writes = !readOnly && !request.settings.readOnly
        let place = DoctorPlace()
        switch StoreCheckup(session: session, place: place, writes: writes).run(report) {
        case .stop: return try conclude(report)
        case .clear:
            place.clear(session, report)
            return try conclude(report)
        case .goOn: break
        }
        // A mount sends only the conditions that a store of this kind is known to honour; this session sends every one.
        let probe = try ObjectStoreSession(request, checked: false, probes: true)
        ConditionCheckup(session: session, probe: probe, place: place).run(report)
        ETagCheckup(session: session, place: place).run(report)
        KeyCheckup(session: session, place: place).run(report)
        place.clear(session, report)
        try conclude(report)
    }

    private func conclude(_ report: DoctorReport) throws {
        report.checkPermissions()
        guard report.failures == 0 else {
            throw CommandError("\(report.failures) of \(report.count) checks failed for \(place)")
        }
    }

    /// The request of the URL or, for a path, that of its mount.
    private func request() throws(CommandError) -> MountRequest {
        if place.contains("://") {
            return try MountRequest(
                url: place, mountpoint: "", options: location.options, environment: Entry.environment)
        }
        let mount: MountPlace
        do throws(CommandError) { mount = try MountPlace(place) } catch {
            throw CommandError("\(error.message); or write scheme://bucket")
        }
        return try mount.locate("").request(options: location.options)
    }
}

/// Prints the result of each check as it ends, and counts the failures.
final class DoctorReport {
    private(set) var failures = 0
    private(set) var count = 0
    /// The operations that the store has refused these credentials.
    private var lacking: [String] = []

    private let isJSON: Bool

    init(isJSON: Bool = false) { self.isJSON = isJSON }

    enum Outcome { case done, refused, failed }

    /// The first word of a line.
    enum Verdict: String { case ok, failed, differs, unused, skipped }

    /// What `--json` prints of one check.
    private struct Line: Encodable {
        let verdict: String
        let check: String
        let detail: String?
    }

    /// Performs one check. False when it failed.
    @discardableResult
    func check(_ name: String, _ body: () throws(CommandError) -> String?) -> Bool {
        count += 1
        do throws(CommandError) {
            say(.ok, name, try body())
            return true
        } catch {
            failures += 1
            say(.failed, name, error.message)
            return false
        }
    }

    /// Performs a check of something that a mount works around: `body` returns what differs, or nil.
    func compare(_ name: String, _ body: () throws(CommandError) -> String?) {
        count += 1
        do throws(CommandError) {
            let finding = try body()
            say(finding == nil ? .ok : .differs, name, finding)
        } catch {
            failures += 1
            say(.failed, name, error.message)
        }
    }

    /// Performs a check of an operation. When the store refuses the credentials, `lack` is noted as missing; when the operation
    /// works although the server was seen to depart from its protocol, the check differs.
    @discardableResult
    func attempt(
        _ name: String, lack: String, _ session: ObjectStoreSession,
        _ body: @escaping @Sendable (any ObjectStore) async throws(ObjectStoreError) -> String?
    ) -> Outcome {
        count += 1
        let before = session.capabilities.quirks
        let isRefused = Mutex(false)
        do throws(CommandError) {
            let detail = try session.answer { store async throws(ObjectStoreError) in
                do throws(ObjectStoreError) { return try await body(store) } catch {
                    if error.kind == .accessDenied { isRefused.withLock { $0 = true } }
                    throw error
                }
            }
            let learned = session.capabilities.quirks.subtracting(before).sorted { $0.rawValue < $1.rawValue }
            if learned.isEmpty { say(.ok, name, detail) }
            for quirk in learned { say(.differs, name, "the server \(quirk)") }
            return .done
        } catch {
            failures += 1
            say(.failed, name, error.message)
            guard isRefused.withLock({ $0 }) else { return .failed }
            if !lacking.contains(lack) { lacking.append(lack) }
            return .refused
        }
    }

    /// Reports the refused operations, if there are any.
    func checkPermissions() {
        guard !lacking.isEmpty else { return }
        check("permissions") { () throws(CommandError) in
            throw CommandError(
                "the store refuses these credentials: \(lacking.joined(separator: ", ")); "
                    + "allow the actions that pailfs-stores(7) lists under PERMISSIONS, or mount with ro")
        }
    }

    func skip(_ name: String, _ reason: String) { say(.skipped, name, reason) }

    /// Prints a line that is no check.
    func note(_ verdict: Verdict, _ name: String, _ detail: String) { say(verdict, name, detail) }

    private func say(_ verdict: Verdict, _ name: String, _ detail: String?) {
        guard !isJSON else {
            try? Output.jsonLine(Line(verdict: verdict.rawValue, check: name, detail: detail))
            return
        }
        let told = detail.map { Output.padded(name, to: 25) + $0 } ?? name
        let word = verdict == .failed ? "FAILED" : verdict.rawValue
        Output.line(ByteString(Output.padded(word, to: 9) + told))
    }
}
