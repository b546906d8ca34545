import FileSystem
import Metadata

/// What a program asks of the mount, a kernel request at a time. A path is walked by `enter`, since another program may act
/// between the look-up of a directory and the call in it.
enum Step: Hashable, CustomStringConvertible {
    /// Looks up the directory for what follows; nil is the top directory.
    case enter(Slot, String?)
    /// Looks up a name, for `open`.
    case look(String)
    /// Opens the file that the last `look` found.
    case open(truncating: Bool)
    /// open(2) with O_CREAT, after a `look` that found nothing.
    case create(String)
    /// Writes at an offset, or at the end of the file.
    case write([UInt8], at: Int?)
    case read
    case resize(Int)
    case close
    case unlink(String)
    case makeDirectory(String)
    case removeDirectory(String)
    /// From a name in the first directory to one in the second.
    case rename(String, String)

    /// The directories that a program has looked up.
    enum Slot { case first, second }

    var description: String {
        switch self {
        case .enter(let slot, let name): "enter \(name ?? "/")\(slot == .second ? " (second)" : "")"
        case .look(let name): "look \(name)"
        case .open(let truncating): truncating ? "open O_TRUNC" : "open"
        case .create(let name): "create \(name)"
        case .write(let bytes, let offset): "write \(bytes) \(offset.map { "at \($0)" } ?? "at the end")"
        case .read: "read"
        case .resize(let size): "truncate to \(size)"
        case .close: "close"
        case .unlink(let name): "unlink \(name)"
        case .makeDirectory(let name): "mkdir \(name)"
        case .removeDirectory(let name): "rmdir \(name)"
        case .rename(let old, let new): "rename \(old) to \(new)"
        }
    }

    /// What the program sees of it.
    enum Answer: Hashable, CustomStringConvertible {
        case done
        case found(EntryKind?)
        case bytes([UInt8])
        case failed(FileSystemError.Kind)

        var description: String {
            switch self {
            case .done: "done"
            case .found(let kind): kind.map { "\($0)" } ?? "nothing"
            case .bytes(let bytes): "\(bytes)"
            case .failed(let kind): "\(kind)"
            }
        }
    }
}

/// A call of a program: several steps, of which the later ones depend on the answers to the first.
enum Call: CustomStringConvertible {
    /// Opens the file, creating it if it is not there, does something with it, and closes it.
    case use(directory: String?, name: String, creating: Bool, truncating: Bool, [Step])
    case unlink(directory: String?, name: String)
    case makeDirectory(String)
    case removeDirectory(String)
    case rename(directory: String?, name: String, to: String?, String)

    var description: String {
        func path(_ directory: String?, _ name: String) -> String { directory.map { "\($0)/\(name)" } ?? name }
        switch self {
        case .use(let directory, let name, let creating, let truncating, let steps):
            return
                "use \(path(directory, name))\(creating ? " O_CREAT" : "")\(truncating ? " O_TRUNC" : "") \(steps)"
        case .unlink(let directory, let name): return "unlink \(path(directory, name))"
        case .makeDirectory(let name): return "mkdir \(name)"
        case .removeDirectory(let name): return "rmdir \(name)"
        case .rename(let from, let name, let to, let newName):
            return "rename \(path(from, name)) to \(path(to, newName))"
        }
    }
}
