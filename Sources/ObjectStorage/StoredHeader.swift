/// A standard header that stores keep with an object and send along with it; the raw value is its name in lower case.
package enum StoredHeader: String, Sendable, Hashable, CaseIterable {
    case contentType = "content-type"
    case cacheControl = "cache-control"
    case contentDisposition = "content-disposition"
    case contentEncoding = "content-encoding"
    case contentLanguage = "content-language"
    case expires

    /// Whether a header can carry `value` unchanged: printable ASCII without spaces at its ends. RFC 9110, section 5.5
    package static func canCarry(_ value: String) -> Bool {
        let space = UInt8(ascii: " ")
        return !value.isEmpty && value.utf8.first != space && value.utf8.last != space
            && value.utf8.allSatisfy { $0 >= space && $0 < 127 }
    }
}

extension ObjectMetadata {
    package subscript(_ header: StoredHeader) -> String? {
        get {
            switch header {
            case .contentType: contentType
            case .cacheControl: cacheControl
            case .contentDisposition: contentDisposition
            case .contentEncoding: contentEncoding
            case .contentLanguage: contentLanguage
            case .expires: expires
            }
        }
        set {
            switch header {
            case .contentType: contentType = newValue
            case .cacheControl: cacheControl = newValue
            case .contentDisposition: contentDisposition = newValue
            case .contentEncoding: contentEncoding = newValue
            case .contentLanguage: contentLanguage = newValue
            case .expires: expires = newValue
            }
        }
    }
}
