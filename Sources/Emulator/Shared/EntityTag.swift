import Basics
import Digests

extension Encryption {
    /// Whether the entity tag of content that came in one piece is its MD5.
    var showsMD5: Bool { (self == .unstated || self == .managed) && !Departures.current.makesOpaqueETags }

    /// The entity tag of content that came in one piece: its MD5, unless encryption hides that.
    func etag(_ md5: [UInt8]) -> String { Hex.encode(showsMD5 ? md5 : MD5.of(md5 + Array("\(self)".utf8))) }
}

extension ObjectRecord {
    /// Whether the entity tag is the MD5 of the bytes: not of what came in parts, by appending, or encrypted.
    var etagIsMD5: Bool { parts.isEmpty && kind == .normal && description.encryption.showsMD5 }
}
