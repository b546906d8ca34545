import Basics
import Commits
import FuseBridge
import Glibc
import Journaling
import Staging

/// Where `pailfs recover` works: through the process of a mount, or, when nothing is mounted, in the state directory
/// itself, which is locked meanwhile.
enum RecoveryPlace {
    case mount(MountPlace)
    case directory(LocalRecovery)

    /// Five seconds, with the pauses between them.
    private static let mostTries = 100

    /// `text` is a path in a mount, a URL as it was mounted, or the state or cache directory of a mount.
    init(_ text: String, options: [String]) throws(CommandError) {
        if text.contains("://") {
            let request = try MountRequest(
                url: text, mountpoint: "", options: options, environment: Entry.environment)
            self = try Self.open(try DirectoryPair.found(for: request).state, request)
            return
        }
        let path = MountRequest.absolute(text)
        if DirectoryPair.isOne(path) {
            self = try Self.open(DirectoryPair(existing: path).state, nil)
        } else {
            self = .mount(try MountPlace(text))
        }
    }

    private static func open(_ directory: String, _ request: MountRequest?) throws(CommandError)
        -> RecoveryPlace
    {
        var tries = 0
        while true {
            do throws(JournalingError) { return .directory(try LocalRecovery(directory, request)) } catch {
                if let error = LeavingMount.error(error) { throw error }
                guard case .held(_, _, let mountpoint?) = error else { throw CommandError(error.description) }
                // The process that has the directory answers instead.
                do throws(CommandError) { return .mount(try MountPlace(mountpoint)) } catch {
                    // A killed process keeps its lock until the kernel has ended it, when its mount may be gone already.
                    tries += 1
                    guard tries < Self.mostTries else { throw error }
                    usleep(50_000)
                }
            }
        }
    }

    func list() throws(CommandError) -> [RecoverableLine] {
        guard case .recoverable(let files) = try answer(.recoverable, within: .seconds(60)) else {
            return []
        }
        return files
    }

    /// Waits without a deadline: the request takes as long as the store does.
    @discardableResult
    func act(_ request: ControlRequest) throws(CommandError) -> ControlAnswer {
        try answer(request, within: nil)
    }

    /// Call it at the end; throws when another acknowledged file could not be stored.
    func finish() throws(CommandError) { if case .directory(let local) = self { try local.finish() } }

    private func answer(_ request: ControlRequest, within deadline: Duration?) throws(CommandError)
        -> ControlAnswer
    {
        switch self {
        case .mount(let place): return try place.ask(request, within: deadline)
        case .directory(let local):
            let answer = try local.answer(request)
            if case .failed(let sentence) = answer { throw CommandError(sentence) }
            return answer
        }
    }
}
