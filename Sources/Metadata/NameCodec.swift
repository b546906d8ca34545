package import Basics
import Digests

/// Converts between the bucket's keys and the names that programs see (pailfs-semantics(7), NAMES AND DIRECTORIES), one-to-one both ways.
///
/// Pure. Works on *components*, the piece of a key below its directory's key: `name` for an object, `name/` for a directory,
/// and where symlinks are objects of their own `name.rclonelink` for a symlink. Up to three components share one *base*
/// (`name`). The directory gets the plain name, else the object, else the link; each of the others gets a suffix. All escapes
/// begin with `%%` and continue in one of a few ways; a key that contains such bytes has its `%` escaped, so no two
/// components get the same name.
package struct NameCodec: Sendable, Hashable {
    /// The option `names=`.
    package enum Style: UInt8, Sendable {
        case escaped
        /// Names are the bytes of the key; a key that cannot be shown that way is hidden.
        case raw
    }

    /// Which of the three components of one base.
    package enum Role: Sendable, Hashable, CaseIterable {
        case directory, object, link
    }

    /// The roles that a base has in its directory.
    package struct Neighbours: OptionSet, Sendable, Hashable {
        package let rawValue: UInt8
        package init(rawValue: UInt8) { self.rawValue = rawValue }

        package static let directory = Neighbours(rawValue: 1)
        package static let object = Neighbours(rawValue: 2)
        package static let link = Neighbours(rawValue: 4)

        package init(_ role: Role) {
            switch role {
            case .directory: self = .directory
            case .object: self = .object
            case .link: self = .link
            }
        }
    }

    /// The meaning of a shown name.
    package enum Meaning: Sendable, Hashable {
        /// The first of `roles` that exists.
        case plain(base: ByteString)
        /// The object, while a directory of the same base has the plain name (`a%%file`).
        case object(base: ByteString)
        /// The link, while a directory or object of the same base has the plain name (`a%%link`).
        case link(base: ByteString)
        /// The object whose key is the directory's own (`%%file`).
        case ownObject
        /// A component too long to show: found by the name itself.
        case abbreviated
    }

    package let style: Style
    /// The suffix of a symlink's key; nil where keys do not mark symlinks.
    package let linkSuffix: ByteString?

    /// NAME_MAX of Linux.
    package static let longestName = 255
    /// The first suffix that rclone's `--links` gave symlinks.
    package static let rcloneLinkSuffix: ByteString = ".rclonelink"

    private static let objectSuffix: ByteString = "%%file"
    private static let besideLinkSuffix: ByteString = "%%link"
    private static let abbreviation: ByteString = "%%~"
    private static let abbreviatedPrefix = 200
    private static let abbreviatedDigits = 16
    private static let percent = UInt8(ascii: "%")
    private static let slash = UInt8(ascii: "/")

    package init(style: Style = .escaped, linkSuffix: ByteString? = NameCodec.rcloneLinkSuffix) {
        (self.style, self.linkSuffix) = (style, linkSuffix)
    }

    // MARK: Components

    package func role(of component: ByteString) -> Role {
        if component.last == Self.slash { return .directory }
        // The suffix alone has no base to be a link of, so it is an ordinary name.
        if let linkSuffix, component.count > linkSuffix.count, component.hasSuffix(linkSuffix) { return .link }
        return .object
    }

    /// The component without the slash or suffix of its role.
    package func base(of component: ByteString) -> ByteString {
        switch role(of: component) {
        case .directory: component.dropLast(1)
        case .object: component
        case .link: component.dropLast(linkSuffix?.count ?? 0)
        }
    }

    /// nil when `base` cannot have that role: a link where there is no suffix, an object that would read as a link. The
    /// object with an empty component belongs to no base, as it is not beside the directory `/` but its parent's own.
    package func component(_ base: ByteString, _ role: Role) -> ByteString? {
        let component: ByteString
        switch role {
        case .directory: component = base + "/"
        case .object:
            guard !base.isEmpty else { return nil }
            component = base
        case .link:
            guard let linkSuffix, !base.isEmpty else { return nil }
            component = base + linkSuffix
        }
        return self.role(of: component) == role ? component : nil
    }

    /// The kind of an object with this component; `isSymlink` is from the store's listing.
    package func kind(of component: ByteString, isSymlink: Bool = false) -> EntryKind {
        switch role(of: component) {
        case .directory: .directory
        case .object: isSymlink ? .symlink : .file
        case .link: .symlink
        }
    }

    // MARK: Showing

    /// The name of a component whose base also has `neighbours` (its own role may be among them). nil: hidden, only with
    /// `names=raw`.
    package func shownName(of component: ByteString, beside neighbours: Neighbours = []) -> ByteString? {
        let role = role(of: component)
        let base = base(of: component)
        let isShadowed = Self.isShadowed(role, by: neighbours)
        switch style {
        case .raw:
            return isShadowed || !Self.isPlain(base) || base.count > Self.longestName ? nil : base
        case .escaped:
            if component.isEmpty { return Self.objectSuffix }
            var name = Self.escape(base)
            if isShadowed { name += role == .link ? Self.besideLinkSuffix : Self.objectSuffix }
            return name.count <= Self.longestName ? name : abbreviate(component, escapedBase: Self.escape(base))
        }
    }

    /// The name of a component that is, or with a neighbour would be, too long to show; nil for all others. Stored with the
    /// entry, because the component cannot be computed from it.
    package func abbreviatedName(of component: ByteString) -> ByteString? {
        // No escape makes a byte longer than four, and most names are far from any limit.
        guard style == .escaped, component.count >= Self.longestName / 4 else { return nil }
        let escaped = Self.escape(base(of: component))
        let room = role(of: component) == .directory ? 0 : Self.objectSuffix.count
        return escaped.count + room > Self.longestName ? abbreviate(component, escapedBase: escaped) : nil
    }

    private func abbreviate(_ component: ByteString, escapedBase: ByteString) -> ByteString {
        let digest = Hex.encode(SHA256.of(component.bytes).prefix(Self.abbreviatedDigits / 2))
        return ByteString(escapedBase.bytes.prefix(Self.abbreviatedPrefix)) + Self.abbreviation + ByteString(digest)
    }

    private static func isShadowed(_ role: Role, by neighbours: Neighbours) -> Bool {
        switch role {
        case .directory: false
        case .object: neighbours.contains(.directory)
        case .link: !neighbours.isDisjoint(with: [.directory, .object])
        }
    }

    // MARK: Understanding

    /// The meaning of a name; nil when no key is ever shown so.
    package func meaning(of name: ByteString) -> Meaning? {
        switch style {
        case .raw:
            return Self.isPlain(name) ? .plain(base: name) : nil
        case .escaped:
            guard name.count <= Self.longestName else { return nil }
            if name == Self.objectSuffix { return .ownObject }
            if Self.isAbbreviated(name) { return .abbreviated }
            if name.hasSuffix(Self.objectSuffix) {
                return Self.unescape(name.dropLast(Self.objectSuffix.count)).map { .object(base: $0) }
            }
            if name.hasSuffix(Self.besideLinkSuffix) {
                return Self.unescape(name.dropLast(Self.besideLinkSuffix.count)).map { .link(base: $0) }
            }
            return Self.unescape(name).map { .plain(base: $0) }
        }
    }

    /// The component that a new entry of this name gets without regard to neighbours; nil where no such name can be created
    /// (EINVAL).
    package func componentToCreate(_ name: ByteString, _ kind: EntryKind) -> ByteString? {
        guard case .plain(let base) = meaning(of: name) else { return nil }
        switch kind {
        case .directory: return component(base, .directory)
        case .file: return component(base, .object)
        case .symlink: return component(base, linkSuffix == nil ? .object : .link)
        }
    }

    // MARK: Escapes

    /// Whether the bytes are a valid file name as they are.
    private static func isPlain(_ base: ByteString) -> Bool {
        !base.isEmpty && base != "." && base != ".." && !base.bytes.contains(0) && !base.bytes.contains(slash)
    }

    private static func escape(_ base: ByteString) -> ByteString {
        switch base {
        case "": return "%%2F"
        case ".": return "%%2E"
        case "..": return "%%2E%%2E"
        default: break
        }
        guard needsEscape(base.bytes) else { return base }
        // If one escape is needed, every `%` is escaped, so that a `%` before an escape cannot be read as part of it.
        var escaped: [UInt8] = []
        for byte in base.bytes {
            switch byte {
            case percent: escaped += "%%25".utf8
            case 0: escaped += "%%00".utf8
            default: escaped.append(byte)
            }
        }
        return ByteString(escaped)
    }

    /// The bytes after `%%` in an escape. Elsewhere `%%` is two ordinary characters: programs use names like `100%%`.
    private static let forms: [[UInt8]] = ["25", "00", "2E", "2F", "~", "file", "link"].map { Array($0.utf8) }

    private static func needsEscape(_ bytes: [UInt8]) -> Bool {
        if bytes.contains(0) { return true }
        guard var index = bytes.firstIndex(of: percent) else { return false }
        while index + 1 < bytes.count {
            let rest = bytes[(index + 2)...]
            if bytes[index] == percent, bytes[index + 1] == percent, forms.contains(where: { rest.starts(with: $0) }) {
                return true
            }
            index += 1
        }
        return false
    }

    /// Undoes `escape`; nil for names that it never returns.
    private static func unescape(_ name: ByteString) -> ByteString? {
        switch name {
        case "%%2F": return ""
        case "%%2E": return "."
        case "%%2E%%2E": return ".."
        default: break
        }
        guard needsEscape(name.bytes) else { return isPlain(name) ? name : nil }
        var base: [UInt8] = []
        var rest = name.bytes[...]
        while let byte = rest.first {
            guard byte == percent else {
                base.append(byte)
                rest = rest.dropFirst()
                continue
            }
            if rest.starts(with: "%%25".utf8) {
                base.append(percent)
            } else if rest.starts(with: "%%00".utf8) {
                base.append(0)
            } else {
                return nil
            }
            rest = rest.dropFirst(4)
        }
        let result = ByteString(base)
        // Escapes where none were needed would be a second name of the same key.
        return escape(result) == name ? result : nil
    }

    private static func isAbbreviated(_ name: ByteString) -> Bool {
        guard name.count == abbreviatedPrefix + abbreviation.count + abbreviatedDigits else { return false }
        return name.bytes[abbreviatedPrefix...].starts(with: abbreviation.bytes)
            && name.bytes.suffix(abbreviatedDigits).allSatisfy {
                Hex.value($0) != nil && !(UInt8(ascii: "A")...UInt8(ascii: "F")).contains($0)
            }
    }
}
